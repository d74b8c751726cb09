"""A Redis that fails over: one redis-server each on 127.0.0.1, 127.0.0.2 and 127.0.0.3, all at one port, and beside each of
them a sentinel. The first is the primary at the start; `shop` is its name."""
import os

import redis

from harness.ports import port
from harness.process import Process
from harness.programs import REDIS_SERVER
from harness.wait import patience, wait_until

NAME = "shop"
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
DOWN_AFTER_MS = 1000


class Node(Process):
    """A redis-server at an address of its own; started again it is what it was: a replica remains one. seen: the port under
    which the others know it, where a proxy listens."""

    def __init__(self, directory, host, port, primary=None, extra=(), seen=None):
        super().__init__(directory)
        self.clients = {}  # by the time that they wait
        self.name, self.host, self.port, self.seen = f"redis-{host}", host, port, seen or port
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.config = os.path.join(directory, "redis.conf")
        lines = [f"bind {host}", f"port {port}", f"dir {directory}", "appendonly yes", "appendfsync everysec", 'save ""',
                 f"replica-announce-ip {host}", f"replica-announce-port {self.seen}", "repl-diskless-sync-delay 0",
                 "repl-ping-replica-period 1", *extra]
        if primary:
            lines.append(f"replicaof {primary.host} {primary.seen}")
        with open(self.config, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def argv(self):
        return [REDIS_SERVER, self.config]

    def is_ready(self):
        return self.client().ping()

    def client(self, timeout_s=20):
        if timeout_s not in self.clients:
            self.clients[timeout_s] = redis.Redis(host=self.host, port=self.port, socket_timeout=patience(timeout_s))
        return self.clients[timeout_s]

    def role(self):
        return self.client(2).info("replication")["role"]


class Sentinel(Process):
    def __init__(self, directory, host, port, primary, extra=(), password=None):
        super().__init__(directory)
        self.name, self.host, self.port, self.password = f"sentinel-{host}", host, port, password
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.config = os.path.join(directory, "sentinel.conf")
        lines = [f"bind {host}", f"port {port}", f"dir {directory}", f"sentinel announce-ip {host}",
                 f"sentinel monitor {NAME} {primary.host} {primary.seen} 2", f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
                 f"sentinel failover-timeout {NAME} 6000", f"sentinel parallel-syncs {NAME} 2", *extra]
        if password:
            lines += [f"requirepass {password}", f"sentinel sentinel-pass {password}"]
        with open(self.config, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def argv(self):
        return [REDIS_SERVER, self.config, "--sentinel"]

    def is_ready(self):
        return self.client().ping() and self.hurry()

    def hurry(self):
        """An old primary is made a replica after 2 s instead of 10: that is what tests would wait for."""
        try:
            self.client().execute_command("SENTINEL", "DEBUG", "PUBLISH-PERIOD", 500, "INFO-PERIOD", 1000)
        except redis.ResponseError:
            pass  # older than Redis 7.0: it takes its time
        return True

    def client(self, timeout_s=5):
        return redis.Redis(host=self.host, port=self.port, password=self.password, socket_timeout=patience(timeout_s), decode_responses=True)

    def primary(self):
        host, port = self.client(1).execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return host, int(port)


class Sentinels:
    """All of it. node: the option lines of each redis-server; sentinel: those of each sentinel; seen: see Node, of the
    first."""

    def __init__(self, directory, node=(), sentinel=(), password=None, seen=None):
        self.port, self.sentinel_port = port(), port()
        self.nodes, self.sentinels = [], []
        for host in HOSTS:
            first = self.nodes[0] if self.nodes else None
            self.nodes.append(Node(self.made(directory, f"n{host}"), host, self.port, first, node, None if first else seen))
        for host in HOSTS:
            self.sentinels.append(Sentinel(self.made(directory, f"s{host}"), host, self.sentinel_port, self.nodes[0], sentinel,
                                           password=password))

    @staticmethod
    def made(directory, name):
        path = os.path.join(directory, name)
        os.mkdir(path)
        return path

    def start(self):
        for each in self.nodes:
            each.start()
        wait_until(lambda: self.in_step(2), 30, "both replicas are in step")
        for each in self.sentinels:
            each.start()
        self.wait_settled()
        return self

    def in_step(self, replicas):
        """The primary has that many replicas, and none is behind."""
        info = self.primary().client().info("replication")
        online = [info[f"slave{i}"] for i in range(info["connected_slaves"])]
        return len([each for each in online if each["state"] == "online" and each["lag"] <= 1]) >= replicas

    def primary(self):
        """The one that the nodes themselves say it is: the newest where two do."""
        masters = [each for each in self.nodes if each.alive() and self.says_master(each)]
        assert len(masters) == 1, [each.name for each in masters]
        return masters[0]

    @staticmethod
    def says_master(node):
        try:
            return node.role() == "master"
        except redis.RedisError:
            return False

    def at(self, address):
        return next(each for each in self.nodes if (each.host, each.seen) == tuple(address))

    def wait_settled(self, replicas=2, sentinels=3, deadline_s=60):
        """One primary, which all living sentinels name, with all replicas in step; all sentinels know each other and them."""
        def settled():
            now = self.primary()
            living = [each for each in self.sentinels if each.alive()]
            for each in living:
                master = each.client(1).sentinel_master(NAME)
                if (each.primary() != (now.host, now.seen) or master["num-other-sentinels"] != sentinels - 1 or
                        master["num-slaves"] < replicas or set(master["flags"].split(",")) != {"master"}):
                    return None
                slaves = each.client(1).sentinel_slaves(NAME)
                if sum(1 for slave in slaves if slave["flags"] == "slave" and slave["master-link-status"] == "ok") < replicas:
                    return None
            return self.in_step(replicas) and now
        return wait_until(settled, deadline_s, "the sentinels agree on a primary with its replicas", 0.1)

    def urls(self):
        return [f"{each.host}:{each.port}" for each in self.sentinels]

    def failover(self):
        """A planned one; returns when the asked sentinel began with it."""
        return self.sentinels[0].client().execute_command("SENTINEL", "FAILOVER", NAME)

    def wait_moved(self, old, deadline_s=60):
        """The node that all living sentinels name and that is not `old`."""
        def moved():
            named = {each.primary() for each in self.sentinels if each.alive()}
            return len(named) == 1 and self.at(*named) is not old and self.says_master(self.at(*named)) and self.at(*named)
        return wait_until(moved, deadline_s, "the sentinels name another primary", 0.02)

    def close(self):
        for each in (*self.sentinels, *self.nodes):
            each.resume()
            each.close()
