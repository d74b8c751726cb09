"""One process of ours: started, paused, killed and ended by its own pid; its output in a file."""
import os
import signal
import subprocess

from harness.wait import patience, wait_until


class Process:
    """Subclasses give argv(), and is_ready() which may raise while the process comes up."""

    name = "process"
    ready_within_s = 120

    clock = None  # harness.clock.Clock: the time it is told, instead of the machine's
    disk = None  # harness.disk.Disk: what it syncs is noted

    def __init__(self, directory):
        self.directory = directory
        self.log_path = os.path.join(directory, f"{self.name}.log")
        self.process = None

    def argv(self):
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def environment(self):
        with_clock = {**os.environ, **(self.clock.environment() if self.clock else {})}
        return self.disk.environment(with_clock) if self.disk else with_clock

    def spawn(self):
        # setpriv: should the test run be killed itself, the kernel ends what it started
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.argv()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd=self.directory)
        return self

    def start(self):
        self.spawn()
        self.wait_ready()
        return self

    def wait_ready(self):
        def ready_or_dead():
            if self.process.poll() is not None:
                return "dead"
            return self.is_ready() and "ready"

        state = wait_until(ready_or_dead, self.ready_within_s, f"{self.name} is up")
        assert state == "ready", f"{self.name} ended with {self.process.returncode}:\n{self.log_tail()}"

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            os.kill(self.process.pid, number)

    def pause(self):
        """Until all its threads are stopped: a signal that was sent need not have been taken yet."""
        self.signal(signal.SIGSTOP)
        if self.alive():
            wait_until(self.is_paused, 60, f"{self.name} stands still")

    def is_paused(self):
        states = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/stat", encoding="utf-8", errors="replace") as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        return set(states) <= {"T", "t"}

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill9(self):
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.ended()

    def terminate(self, within_s=120):
        """SIGTERM; the exit status."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self.ended(within_s)

    def ended(self, within_s=120):
        """The exit status, once it has ended by itself."""
        return self.process.wait(patience(within_s))

    def close(self):
        self.kill9()

    def restart(self):
        self.kill9()
        return self.start()

    def log(self):
        if not os.path.isfile(self.log_path):  # /dev/full has no end, and a pipe blocks
            return ""
        with open(self.log_path, "r", encoding="utf-8", errors="replace") as log:
            return log.read()

    def log_tail(self, lines=30):
        return "\n".join(self.log().splitlines()[-lines:])

    def log_contains(self, text, deadline_s=60):
        wait_until(lambda: text in self.log(), deadline_s, f"{self.name}'s log has {text!r}")

    def rss_kib(self, figure="VmRSS"):
        """figure: VmHWM is the most that it ever was."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(f"{figure}:"):
                    return int(line.split()[1])
        raise AssertionError(f"no {figure}")
