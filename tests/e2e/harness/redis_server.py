"""A private redis-server, or valkey-server, on a unix socket."""
import os
import shutil
import tempfile

import redis

from harness.disk import Disk
from harness.laned import Laned
from harness.ports import port
from harness.process import Process
from harness.programs import REDIS_SERVER
from harness.slots import slot_of_lane
from harness.tagged import Tagged
from harness.wait import patience, wait_until

MEMORY = "/dev/shm"
TAG, SLOT = "{fjl}", 8192  # of tallyd's one lane in a cluster (src/series/slot.h)


def memory_directory():
    """Where fsync costs nothing, None where there is no such place with room."""
    if not os.path.isdir(MEMORY) or not os.access(MEMORY, os.W_OK):
        return None
    room = os.statvfs(MEMORY)
    return tempfile.mkdtemp(prefix="tly-", dir=MEMORY) if room.f_bavail * room.f_frsize > 1 << 30 else None


def in_step(primary, replicas=1):
    """That many have what was written. That their links are up does not say it: a primary streams nothing before a replica's
    first ACK, up to a second behind its sync. WAIT is for what its own connection wrote."""
    with primary.client().client() as link:
        link.set("nothing", "")
        wait_until(lambda: link.execute_command("WAIT", replicas, "1000") == replicas, 30, "the replicas have all")
        link.delete("nothing")


class RedisServer(Process):
    name = "redis"

    def __init__(self, directory, appendfsync="everysec", appendonly="yes", policy="noeviction", extra=(),
                 in_memory=False, clock=None, disk=False):
        super().__init__(directory)
        self.clock = clock
        self.memory = memory_directory() if in_memory else None
        self.data = self.memory or directory
        self.disk = Disk(directory, self.data) if disk else None
        self.socket = os.path.join(directory, "redis.sock")
        self.appendfsync, self.appendonly, self.policy, self.extra = appendfsync, appendonly, policy, list(extra)
        self.clients = {}  # by the time that they wait

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
        if timeout_s not in self.clients:  # it connects again by itself
            self.clients[timeout_s] = redis.Redis(unix_socket_path=self.socket, socket_timeout=patience(timeout_s))
        return self.clients[timeout_s]


class ClusterNode(RedisServer):
    """A cluster of one node which has tallyd's slots and no other: a key that lacks the tag is an error. E2E_CLUSTER=1 makes the
    fixtures' redis-servers so, E2E_CLUSTER=16 with 16 lanes."""

    def __init__(self, directory, lanes=1, **options):
        super().__init__(directory, **options)
        self.lanes = lanes
        self.port, self.bus = port(), port()

    @property
    def slots(self):
        """Those of the lanes, and the one in which their number is kept."""
        return sorted({SLOT, *(slot_of_lane(lane, self.lanes) for lane in range(self.lanes))})

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self.port}/"

    def argv(self):
        return [*super().argv(), "--port", str(self.port), "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port",
                str(self.bus), "--cluster-require-full-coverage", "no"]

    def is_ready(self):
        bare = redis.Redis(unix_socket_path=self.socket, socket_timeout=patience(20))
        if b"cluster_slots_assigned:0" in bare.execute_command("CLUSTER", "INFO"):
            bare.execute_command("CLUSTER", "ADDSLOTS", *self.slots)
        return b"cluster_state:ok" in bare.execute_command("CLUSTER", "INFO")

    def client(self, timeout_s=20):
        if self.lanes > 1:
            return Laned(self.lanes, unix_socket_path=self.socket, socket_timeout=patience(timeout_s))
        return Tagged(TAG, unix_socket_path=self.socket, socket_timeout=patience(timeout_s))


class Links:
    """In place of a proxy before a cluster's node, which names itself. cut() ends all links at the node: what it had read by then
    is done, and its answers are lost."""

    def __init__(self, node):
        self.node = node

    def cut(self):
        self.node.client().client_kill_filter(_type="normal")

    def stall(self, way):
        pass

    def flow(self):
        pass

    def swallow_replies(self):
        pass
