"""A private redis-server on a unix socket."""
import os

import redis

from harness.process import Process


class RedisServer(Process):
    name = "redis"

    def __init__(self, directory, appendfsync="everysec", appendonly="yes", policy="noeviction", extra=()):
        super().__init__(directory)
        self.socket = os.path.join(directory, "redis.sock")
        self.appendfsync, self.appendonly, self.policy, self.extra = appendfsync, appendonly, policy, list(extra)

    @property
    def url(self):
        return f"unix://{self.socket}?db=0"

    def argv(self):
        return ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self.directory, "--save", "",
                "--appendonly", self.appendonly, "--appendfsync", self.appendfsync,
                "--maxmemory-policy", self.policy, "--daemonize", "no", *self.extra]

    def is_ready(self):
        return self.client().ping()

    def client(self, timeout_s=20):
        return redis.Redis(unix_socket_path=self.socket, socket_timeout=timeout_s)
