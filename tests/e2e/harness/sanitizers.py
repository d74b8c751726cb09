"""What the sanitizers of a sanitized tallyd say, of the service as of its verbs, in files of their own: a report of
ThreadSanitizer ends nothing, and a service that a test kills has no exit status to tell of it."""
import glob
import os


class Reports:
    def __init__(self, directory):
        os.chmod(directory, 0o1777)  # also for a tallyd that has changed its user by then
        self.path = os.path.join(directory, "report")
        for name in ("ASAN", "LSAN", "TSAN", "UBSAN"):
            option = f"{name}_OPTIONS"
            os.environ[option] = ":".join(filter(None, (os.environ.get(option), f"log_path={self.path}")))

    def take(self):
        """All that was said since the last time, as one text."""
        said = []
        for path in sorted(glob.glob(f"{self.path}.*")):
            with open(path, "r", encoding="utf-8", errors="replace") as file:
                said.append(file.read())
            os.remove(path)
        return "\n".join(said)
