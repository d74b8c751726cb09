"""A private redis-server, or valkey-server, on a unix socket."""
import os
import shutil
import tempfile

import redis

from harness.process import Process
from harness.programs import REDIS_SERVER
from harness.wait import wait_until

MEMORY = "/dev/shm"


def memory_directory():
    """Where fsync costs nothing, None where there is no such place with room."""
    if not os.path.isdir(MEMORY) or not os.access(MEMORY, os.W_OK):
        return None
    room = os.statvfs(MEMORY)
    return tempfile.mkdtemp(prefix="tly-", dir=MEMORY) if room.f_bavail * room.f_frsize > 1 << 30 else None


def in_step(primary, replicas=1):
    """So many have what was written. That their links are up does not say it: a primary streams nothing before a replica's
    first ACK, up to a second behind its sync. WAIT is for what its own connection wrote."""
    with primary.client().client() as link:
        link.set("nothing", "")
        wait_until(lambda: link.execute_command("WAIT", replicas, "1000") == replicas, 30, "the replicas have all")
        link.delete("nothing")


class RedisServer(Process):
    name = "redis"

    def __init__(self, directory, appendfsync="everysec", appendonly="yes", policy="noeviction", extra=(),
                 in_memory=False, clock=None):
        super().__init__(directory)
        self.clock = clock
        self.memory = memory_directory() if in_memory else None
        self.data = self.memory or directory
        self.socket = os.path.join(directory, "redis.sock")
        self.appendfsync, self.appendonly, self.policy, self.extra = appendfsync, appendonly, policy, list(extra)

    @property
    def url(self):
        return f"unix://{self.socket}?db=0"

    def argv(self):
        return [REDIS_SERVER, "--port", "0", "--unixsocket", self.socket, "--dir", self.data,
                "--save", "", "--appendonly", self.appendonly, "--appendfsync", self.appendfsync,
                "--maxmemory-policy", self.policy, "--daemonize", "no", *self.extra]

    def kill9_written(self):
        """kill -9, with all that was answered in the file. With everysec redis-server puts off the write(2) of its AOF, but
        not its answers, while an fsync is under way or only waits for a processor: killed then it loses answered hits,
        however well tallyd counts (it says so: event=frames_lost). `always` puts off nothing."""
        self.client().config_set("appendfsync", "always")
        self.kill9()

    def close(self):
        super().close()
        if self.memory:
            shutil.rmtree(self.memory, ignore_errors=True)

    def is_ready(self):
        return self.client().ping()

    def client(self, timeout_s=20):
        return redis.Redis(unix_socket_path=self.socket, socket_timeout=timeout_s)
