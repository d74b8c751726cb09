"""Open panels and a scraper, as a shop has them: each panel asks every two seconds what moved in its store and, of that,
for today's figures and for the last 30 days, which is what the page does; /metrics every second."""
import http.client
import json
import threading


class Panel(threading.Thread):
    """One browser: a connection that is kept."""

    def __init__(self, host, port, store, day):
        super().__init__(daemon=True)
        self.host, self.port, self.store, self.day = host, port, store, day
        self.ended, self.asked = threading.Event(), 0

    def run(self):
        asks, marks = http.client.HTTPConnection(self.host, self.port, timeout=10), {}
        while not self.ended.wait(2.0):
            asks.request("GET", f"/api/pulse?store={self.store}")
            moved = json.loads(asks.getresponse().read())["moved"]
            for counter in (name for name in moved if moved[name] != marks.get(name)):
                self.ask(asks, counter)
            marks = moved
        asks.close()

    def ask(self, asks, counter):
        for query in (f"?from={self.day}&to={self.day}", "") if counter.endswith("visitors") else ("?top=10",):
            asks.request("GET", f"/api/stores/{self.store}/counters/{counter}{query}")
            answer = asks.getresponse()
            assert answer.status == 200 and answer.read()
            self.asked += 1


class Scraper(threading.Thread):
    def __init__(self, host, port):
        super().__init__(daemon=True)
        self.host, self.port = host, port
        self.ended, self.asked = threading.Event(), 0

    def run(self):
        asks = http.client.HTTPConnection(self.host, self.port, timeout=10)
        while not self.ended.wait(1.0):
            asks.request("GET", "/metrics")
            answer = asks.getresponse()
            assert answer.status == 200 and answer.read()
            self.asked += 1
        asks.close()


class Watchers:
    """with Watchers(...) as w: n panels and a scraper, until the block ends."""

    def __init__(self, host, port, n, day):
        self.all = [Panel(host, port, store, day) for store in range(1, n + 1)] + [Scraper(host, port)]

    def __enter__(self):
        for one in self.all:
            one.start()
        return self

    def __exit__(self, *why):
        assert all(one.is_alive() for one in self.all), "a panel or the scraper was refused"
        for one in self.all:
            one.ended.set()
        for one in self.all:
            one.join(15)

    @property
    def asked(self):
        return sum(one.asked for one in self.all)
