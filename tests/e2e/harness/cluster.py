"""A Redis Cluster on this machine: masters that share the slots, and a replica of each."""
import os
import re
import shutil
import subprocess
import time

import redis

from harness.ports import port
from harness.process import Process
from harness.programs import REDIS_CLI, REDIS_SERVER
from harness.redis_server import SLOT, TAG, memory_directory
from harness.resp import Resp
from harness.slots import slot_of_lane
from harness.tagged import Tagged
from harness.wait import patience, wait_until

NODE_TIMEOUT_MS = 1500
ELECTION_S = 4 * NODE_TIMEOUT_MS / 1000  # Redis 7.0: so long a replica's last election keeps it from the next one


class Node(Process):
    def __init__(self, directory, name, data, extra=(), secure=None):
        super().__init__(directory)
        self.name, self.data, self.secure = name, data, secure
        self.log_path = os.path.join(directory, f"{name}.log")
        self.host, self.port, self.bus = "127.0.0.1", port(), port()
        os.mkdir(data)
        self.extra = list(extra)
        self.elected_at = -ELECTION_S
        self.clients = {}  # by the time that they wait

    def argv(self):
        return [REDIS_SERVER, *self.doors(), "--bind", self.host, "--dir", self.data, "--cluster-enabled", "yes",
                "--cluster-port", str(self.bus), "--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-replica-validity-factor",
                "0", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--save", "", "--appendonly", "yes",
                "--appendfsync", "always", "--maxmemory-policy", "noeviction", *self.extra]

    def doors(self):
        if self.secure is None:
            return ["--port", str(self.port)]
        authority, pair = self.secure
        return ["--port", "0", "--tls-port", str(self.port), "--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients",
                "no", "--tls-cert-file", pair.cert, "--tls-key-file", pair.key, "--tls-ca-cert-file", authority.cert]

    def is_ready(self):
        return self.client().ping()

    def client(self, timeout_s=20):
        if timeout_s not in self.clients:  # it connects again by itself
            tls = {} if self.secure is None else {"ssl": True, "ssl_ca_certs": self.secure[0].cert}
            self.clients[timeout_s] = redis.Redis(host=self.host, port=self.port, socket_timeout=patience(timeout_s), **tls)
        return self.clients[timeout_s]

    def hang_up(self):
        """Our own connections; the next call connects again."""
        for client in self.clients.values():
            client.connection_pool.disconnect()

    @property
    def socket(self):
        """As harness/resp.py takes it."""
        return self.host, self.port

    def cluster(self, *words, timeout_s=20):
        return self.client(timeout_s).execute_command("CLUSTER", *words)

    @property
    def id(self):
        return self.cluster("MYID").decode()

    def is_master(self):
        try:
            return self.client(2).info("replication")["role"] == "master"
        except redis.RedisError:
            return False


class Whole:
    """All lanes as one: what harness/books.py asks of a Redis."""

    def __init__(self, nodes):
        self.nodes, self.seen = nodes, {}

    def eval(self, script, keys):
        assert keys == 0
        return [each for node in self.nodes for each in wait_until(lambda: self.answered(node, script), 30, "the cluster is up")[0]]

    @staticmethod
    def answered(node, script):
        """The answer, of which there is one; nothing while the nodes, on a busy machine, take each other for dead."""
        try:
            return [node.client().eval(script, 0)]
        except redis.exceptions.ResponseError as why:
            if "cluster is down" not in str(why):
                raise
            return []

    def scan_iter(self, **how):
        for node in self.nodes:
            for key in node.client().scan_iter(**how):
                bare = re.sub(rb"^{[a-z0-9]+}", b"", key)
                self.seen[bare] = node, key
                yield bare

    def type(self, bare):
        node, key = self.seen[bare]
        return node.client().type(key)


class Cluster:
    """extra: options of each redis-server. secure: an authority and what it issued, for TLS alone. slot: whose owner is looked at, whose shard fails over, and which migrates."""

    def __init__(self, directory, masters=3, replicas=1, extra=(), lanes=1, secure=None):
        self.lanes, self.slot = lanes, slot_of_lane(lanes // 2, lanes) if lanes > 1 else SLOT
        self.directory = os.path.join(directory, "cluster")
        os.mkdir(self.directory)
        self.data = memory_directory() or os.path.join(self.directory, "data")
        os.makedirs(self.data, exist_ok=True)
        self.masters, self.replicas = masters, replicas
        self.extra, self.secure = extra, secure
        self.nodes = [Node(self.directory, f"node{i}", os.path.join(self.data, str(i)), extra, secure)
                      for i in range(masters * (1 + replicas))]

    def start(self):
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.wait_ready()
        first = self.nodes[0]
        for i, node in enumerate(self.nodes[:self.masters]):
            node.cluster("ADDSLOTSRANGE", 16384 * i // self.masters, 16384 * (i + 1) // self.masters - 1)
            node.cluster("SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.cluster("MEET", first.host, first.port, first.bus)
        self.wait_known()
        for i, node in enumerate(self.nodes[self.masters:]):
            node.cluster("REPLICATE", self.nodes[i % self.masters].id)
        self.wait_well()
        return self

    @staticmethod
    def known_to(node):
        return len([line for line in node.cluster("NODES").decode().splitlines() if "handshake" not in line])

    def wait_known(self):
        wait_until(lambda: all(self.known_to(node) == len(self.nodes) for node in self.nodes), 60, "all nodes know each other", 0.1)

    @staticmethod
    def line_of(node, seen_by):
        """What CLUSTER NODES of the second says of the first."""
        return next(line for line in seen_by.cluster("NODES").decode().splitlines() if line.startswith(node.id))

    def living(self):
        return [node for node in self.nodes if node.alive()]

    def is_well(self):
        for node in self.living():
            if b"cluster_state:ok" not in self.info_of(node):
                return False
        for node in self.living():
            info = node.client().info("replication")
            if info["role"] == "slave" and info["master_link_status"] != "up":
                return False
        return len({self.map_of(node) for node in self.living()}) == 1

    @staticmethod
    def map_of(node):
        """Which port has which slots, as it says."""
        return frozenset((first, last, master[1]) for first, last, master, *_ in node.cluster("SLOTS", timeout_s=5))

    @staticmethod
    def info_of(node):
        return node.client(5).execute_command("CLUSTER", "INFO")

    def seen_by(self, node):
        """Which port has our slot."""
        for first, last, master, *_ in node.cluster("SLOTS", timeout_s=5):
            if first <= self.slot <= last:
                return master[1]
        return None

    @staticmethod
    def has(node, slot):
        """It is the master of that slot, as it says."""
        return any(first <= slot <= last and port == node.port for first, last, port in Cluster.map_of(node))

    def wait_well(self, deadline_s=90):
        wait_until(self.is_well, deadline_s, "the cluster is well", 0.1)

    @property
    def owner(self):
        """The node that has tallyd's slot, as all living ones say."""
        def named():
            ports = {self.seen_by(node) for node in self.living()}
            found = [node for node in self.living() if {node.port} == ports]
            return found[0] if found and found[0].is_master() else None
        return wait_until(named, 60, "all name the owner of the slot", 0.05)

    def replica_of(self, master):
        master_id = master.id

        def named():
            ids = [line.split()[0] for line in master.cluster("NODES").decode().splitlines() if f"slave {master_id}" in line]
            return next((node for node in self.living() if node.id in ids), None)
        return wait_until(named, 60, "the master knows its replica", 0.05)

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"{node.host}:{node.port}" for node in self.nodes[:3]) + "/"

    def client(self, timeout_s=20):
        """To the slot's owner, for keys without their tag; with several lanes to all masters."""
        if self.lanes > 1:
            return Whole([node for node in self.living() if node.is_master()])
        owner = self.owner
        return Tagged(TAG, host=owner.host, port=owner.port, socket_timeout=patience(timeout_s))

    def failover(self):
        """A planned one of the slot's shard."""
        old = self.owner
        new = self.replica_of(old)
        # Within half of that time it would win by its old votes, without a new epoch, and be demoted at once.
        wait_until(lambda: time.monotonic() > new.elected_at + ELECTION_S, 60, "it may be elected again")
        mark = f"slave {old.id}"
        wait_until(lambda: all(mark in self.line_of(new, node) for node in self.living()), 60, "voters know it as a replica")
        new.cluster("FAILOVER")
        wait_until(lambda: self.seen_by(new) == new.port and new.is_master(), 60, "the replica was promoted", 0.02)
        new.elected_at = time.monotonic()
        return old, new

    def migrate_begin(self, to):
        """Our slot begins its way to that node, the old way."""
        old = self.owner
        to.cluster("SETSLOT", self.slot, "IMPORTING", old.id)
        old.cluster("SETSLOT", self.slot, "MIGRATING", to.id)
        return old

    def migrate_keys(self, old, to, most):
        """Moves that many of its keys; returns how many moved."""
        keys = old.cluster("GETKEYSINSLOT", self.slot, most)
        if keys:
            old.client().execute_command("MIGRATE", to.host, to.port, "", 0, 20000, "KEYS", *keys)
        return len(keys)

    def migrate_end(self, old, to):
        while self.migrate_keys(old, to, 1000):
            pass
        to.cluster("SETSLOT", self.slot, "NODE", to.id)
        for node in self.living():
            if node is not to and node.is_master():
                node.cluster("SETSLOT", self.slot, "NODE", to.id)

    def knows(self, command):
        with Resp(self.nodes[0].socket) as client:
            return client.call("COMMAND", "INFO", command) != [None]

    def migrate_whole(self, to, first, last):
        """These slots go to another master by one command, with all their keys. False: the server has none."""
        old = next(node for node in self.living() if self.has(node, first))
        if self.knows("CLUSTER|MIGRATESLOTS"):  # Valkey 9
            old.cluster("MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", to.id)
        elif self.knows("CLUSTER|MIGRATION"):  # Redis 8.4
            to.cluster("MIGRATION", "IMPORT", first, last)
        else:
            return False
        wait_until(lambda: all(self.has(to, slot) for slot in (first, last)), 60, "the slots have moved", 0.05)
        self.wait_well()
        return True

    def run_cli(self, *words):
        """As an operator adds, fills, empties and removes nodes: key by key."""
        done = subprocess.run([REDIS_CLI, "--cluster", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=patience(300), check=False)
        assert done.returncode == 0, done.stdout[-2000:]

    def reshard(self, old, to, slots):
        self.run_cli("reshard", f"{to.host}:{to.port}", "--cluster-from", old.id, "--cluster-to", to.id, "--cluster-slots", slots,
                     "--cluster-yes")
        self.wait_well()

    def add(self):
        """One more master, without slots."""
        name = f"node{len(self.nodes)}"
        node = Node(self.directory, name, os.path.join(self.data, name), self.extra, self.secure)
        node.start()
        self.run_cli("add-node", f"{node.host}:{node.port}", f"{self.nodes[0].host}:{self.nodes[0].port}")
        self.nodes.append(node)
        self.wait_known()
        self.wait_well()
        return node

    def remove(self, node):
        """Once it is empty; the others forget it, and its process ends."""
        self.run_cli("del-node", f"{node.host}:{node.port}", node.id)
        self.nodes.remove(node)
        node.close()
        shutil.rmtree(node.data)  # the next one to come may have its number
        self.wait_well()

    def close(self):
        for node in self.nodes:
            node.resume()
            node.close()
        shutil.rmtree(self.data, ignore_errors=True)
