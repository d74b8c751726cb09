"""What of a redis-server's AOF is on its disk, and what is left of it after a power cut. disk_shim.c notes its fsyncs."""
import os

from harness import clock
from harness.wait import wait_until

SHIM = os.path.join(os.path.dirname(clock.SHIM), "disk_shim.so")


class Disk:
    """Of a RedisServer(disk=True)."""

    def __init__(self, directory, data):
        self.log, self.held = os.path.join(directory, "disk.log"), os.path.join(directory, "disk.held")
        self.files = os.path.join(data, "appendonlydir")

    def environment(self, others):
        preload = ":".join(filter(None, [others.get("LD_PRELOAD"), SHIM]))
        return {**others, "LD_PRELOAD": preload, "TEST_DISK": self.log, "TEST_DISK_HELD": self.held}

    def hold(self, whose=""):
        """From now on no fsync ends; whose="threads": only those that Redis' main thread and children wait for do."""
        with open(self.held, "w", encoding="utf-8") as file:
            file.write(whose)

    def flow(self):
        os.unlink(self.held)

    def syncs(self):
        """(inode, size, began, ended) of each fsync; in seconds, as time.monotonic()."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return [(int(inode), int(size), int(began) / 1e9, int(ended) / 1e9) for inode, size, began, ended in lines]

    def increments(self):
        """path -> (its length, how much of it is on the disk)."""
        safe = {}
        for inode, size, _, _ in self.syncs():
            safe[inode] = max(size, safe.get(inode, 0))
        paths = [os.path.join(self.files, name) for name in os.listdir(self.files) if ".incr." in name]
        return {path: (os.path.getsize(path), safe.get(os.stat(path).st_ino, 0)) for path in paths}

    def unsafe(self):
        return sum(size - safe for size, safe in self.increments().values())

    def power_cut(self, server, least=1):
        """When so many bytes are written and not on the disk: they are gone."""
        self.hold()
        wait_until(lambda: self.unsafe() >= least, 60, "some of the AOF is not on the disk")
        server.kill9()
        lost = self.unsafe()
        for path, (_, safe) in self.increments().items():
            os.truncate(path, safe)
        self.flow()
        return lost
