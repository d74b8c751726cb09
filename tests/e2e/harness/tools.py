"""Proxies and tools that run beside tallyd in a shop: Debian's own, with a configuration of clients/ in which @NAMES@ are
filled in. Each in one process, which ends with the test."""
import os
import re
import socket
import urllib.request

from harness.ports import port
from harness.process import Process
from harness.programs import REDIS_SERVER
from harness.resp import Resp
from harness.unmodified import CLIENTS
from harness.wait import patience


class Tool(Process):
    def path(self, name):
        return os.path.join(self.directory, f"{self.name}.{name}")

    def configure(self, file, **names):
        with open(os.path.join(CLIENTS, file), encoding="utf-8") as text:
            made = text.read()
        for name, value in names.items():
            made = made.replace(f"@{name.upper()}@", str(value))
        with open(self.path("conf"), "w", encoding="utf-8") as out:
            out.write(made)

    def listens(self, path):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(path)
        return True


class HAProxy(Tool):
    name = "haproxy"

    def __init__(self, directory, tallyd_port):
        super().__init__(directory)
        self.by_info, self.by_role = self.path("by_info"), self.path("by_role")
        self.configure("haproxy.cfg", stats=self.path("stats"), by_info=self.by_info, by_role=self.by_role, port=tallyd_port)

    def argv(self):
        return ["haproxy", "-db", "-f", self.path("conf")]

    def is_ready(self):
        return self.listens(self.path("stats"))

    def status(self):
        """listen section -> (UP or DOWN ..., what its last check came to), of its server."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(self.path("stats"))
            link.sendall(b"show stat\n")
            lines = link.makefile(encoding="ascii").read().lstrip("# ").splitlines()
        columns = lines[0].split(",")
        rows = [dict(zip(columns, line.split(","))) for line in lines[1:] if line]
        # "* L7OK": while the next check is under way
        return {row["pxname"]: (row["status"], row["check_status"].lstrip("* ")) for row in rows if row["svname"] == "tallyd"}


class Nutcracker(Tool):
    name = "nutcracker"

    def __init__(self, directory, tallyd_port):
        super().__init__(directory)
        self.socket = self.path("sock")
        self.configure("nutcracker.yml", listen=self.socket, port=tallyd_port)

    def argv(self):
        return ["nutcracker", "-c", self.path("conf"), "-a", "127.0.0.1", "-s", str(port())]

    def is_ready(self):
        return self.listens(self.socket)


class Nginx(Tool):
    name = "nginx"

    def __init__(self, directory, tallyd_socket):
        super().__init__(directory)
        self.socket = self.path("sock")
        self.configure("nginx.conf", here=directory, listen=self.socket, tallyd=tallyd_socket,
                       lua=os.path.join(os.path.abspath(CLIENTS), "nginx.lua"))

    def argv(self):
        return ["nginx", "-e", "stderr", "-c", self.path("conf")]

    def is_ready(self):
        return self.listens(self.socket)


def page_block(language, having=""):
    """The block of this language that config/README.md shows, as it is; of several the one that has a text."""
    with open(os.path.join(CLIENTS, "../../../config/README.md"), encoding="utf-8") as page:
        (block,) = (block for block in re.findall(rf"^```{language}\n(.*?)^```", page.read(), re.M | re.S) if having in block)
    return block


class FrontNginx(Tool):
    """bare: nginx as it comes; told: as config/README.md has it. Both are ports, in front of tallyd's HTTP."""
    name = "front_nginx"

    def __init__(self, directory, http_port):
        super().__init__(directory)
        self.bare, self.told = port(), port()
        self.configure("front_nginx.conf", here=directory, port=self.bare, told=self.told,
                       server=page_block("nginx").replace("7371", "@TALLYD@"), tallyd=http_port)

    def argv(self):
        return ["nginx", "-e", "stderr", "-c", self.path("conf")]

    def is_ready(self):
        return all(socket.create_connection(("127.0.0.1", number)).close() is None for number in (self.bare, self.told))


class FrontHAProxy(Tool):
    name = "front_haproxy"

    def __init__(self, directory, http_port, more=""):
        super().__init__(directory)
        self.told = port()
        section = page_block("haproxy", "frontend").replace("7371", str(http_port))  # first: a port may have these digits, too
        section = section.replace("bind :443 ssl crt /etc/haproxy/panel.pem", f"bind 127.0.0.1:{self.told}")
        self.configure("front_haproxy.cfg", section=section + more)

    def argv(self):
        return ["haproxy", "-db", "-f", self.path("conf")]

    def is_ready(self):
        return socket.create_connection(("127.0.0.1", self.told)).close() is None


class Rsyslog(Tool):
    name = "rsyslog"

    def __init__(self, directory, tallyd_port):
        super().__init__(directory)
        self.socket = self.path("sock")
        self.configure("rsyslog.conf", input=self.socket, port=tallyd_port)

    def argv(self):
        return ["rsyslogd", "-n", "-i", self.path("pid"), "-f", self.path("conf")]

    def is_ready(self):
        return self.listens(self.socket)


class Sentinel(Tool):
    name = "sentinel"

    def __init__(self, directory, tallyd_port):
        super().__init__(directory)
        self.port = port()
        self.configure("sentinel.conf", port=tallyd_port)

    def argv(self):
        return [REDIS_SERVER, self.path("conf"), "--sentinel", "--bind", "127.0.0.1", "--port", str(self.port)]

    def is_ready(self):
        return self.ask("PING") == "PONG"

    def ask(self, *words):
        with Resp(("127.0.0.1", self.port)) as link:
            return link.call(*words)

    def master(self):
        said = [word.decode() for word in self.ask("SENTINEL", "MASTER", "shop")]
        return dict(zip(said[::2], said[1::2]))


class Exporter(Tool):
    """name: of the process, where there is more than one."""

    def __init__(self, directory, name, url):
        self.name = name
        super().__init__(directory)
        self.port, self.url = port(), url

    def argv(self):
        return ["prometheus-redis-exporter", "-redis.addr", self.url, "-web.listen-address", f"127.0.0.1:{self.port}"]

    def is_ready(self):
        return self.metrics()

    def metrics(self):
        """name{labels} -> number."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=patience(30)) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}
