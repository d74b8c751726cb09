"""A client of tallyd's HTTP side, over a unix socket or TCP; every answer of a known path is held against openapi.yaml."""
import http.client
import json
import socket
from urllib.parse import quote

from harness.contract import Contract
from harness.wait import patience

CONTRACT = Contract()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


class Connection(http.client.HTTPConnection):
    def __init__(self, at, timeout_s):
        super().__init__(at if isinstance(at, str) and not at.startswith("/") else "localhost", timeout=patience(timeout_s))
        self.at = at

    def connect(self):
        if isinstance(self.at, tuple):
            self.sock = socket.create_connection(self.at, self.timeout)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(self.at)


class Web:
    """at: the path of a unix socket, or (host, port)."""

    def __init__(self, at, token=None, timeout_s=30):
        self.at, self.token, self.timeout_s = at, token, timeout_s

    def headers(self, more):
        host = self.at[0] if isinstance(self.at, tuple) else "localhost"
        made = {"Host": host, **({"Authorization": f"Bearer {self.token}"} if self.token else {}), **(more or {})}
        return {name: value for name, value in made.items() if value is not None}

    def ask(self, path, method="GET", headers=None, body=None, check=True):
        connection = Connection(self.at, self.timeout_s)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in self.headers(headers).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            got = connection.getresponse()
            answer = Answer(got.status, got.headers, got.read())
        finally:
            connection.close()
        if check and method != "HEAD":
            CONTRACT.check(method, path, answer)
        return answer

    def get(self, path, **options):
        """The JSON of an answer that must be 200."""
        answer = self.ask(path, **options)
        assert answer.status == 200, (path, answer.status, answer.text)
        return answer.json()

    def post(self, path, **options):
        return self.ask(path, "POST", {"X-Tallyd": "1"}, **options)

    def figures(self, store, counter, query=""):
        return self.get(f"/api/stores/{quote(store, safe='')}/counters/{counter}{query}")

    def metrics(self):
        """name{labels} -> number."""
        made = {}
        for line in self.ask("/metrics").text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                made[name] = float(value)
        return made
