"""A tallyd, and the sum of what it answered: nothing here kills it, so every hit is answered and sums are exact."""
from collections import Counter

from harness.books import counted, read_mysql
from harness.daemon import counters

FAMILIES = counters(hits=10**9, every="3600s")
VIEWS = "s1:product_views"


class Shop:
    """Its sessions with MySQL go through a proxy."""

    def __init__(self, make_redis, make_daemon, make_proxy, mysql):
        self.mysql, self.make_daemon = mysql, make_daemon
        self.redis = make_redis(appendfsync="always", in_memory=True)
        self.proxy = make_proxy(mysql.socket)
        self.acked = Counter()
        self.daemon = None

    def open(self, user="root", **options):
        self.daemon = self.make_daemon(
            self.redis, start=False, families=options.pop("families", FAMILIES),
            mysql_url=f"mysql://{user}@localhost/shop?socket={self.proxy.path}", **options)
        return self

    def start(self):
        self.daemon.migrate().start()
        return self

    def hits(self, n=50, to=None, key=VIEWS, fields=None):
        """That many hits on each of two keys, or on `fields` of one; all are answered."""
        pairs = [(key, field) for field in fields] if fields else \
            [(f"s{store}:product_views", str(at)) for store in (1, 2) for at in range(n)]
        with (to or self.daemon).client() as client:
            replies = client.pipeline([("HINCRBY", key, field, 3) for key, field in pairs])
        assert all(isinstance(reply, int) for reply in replies), replies
        for key, field in pairs:
            self.acked[key.encode(), field if isinstance(field, bytes) else field.encode()] += 3

    def ask_for_merging(self):
        link = self.daemon.client()
        link.send(b"CTR.SYNC ALL\r\n")
        return link

    def ledger_rows(self):
        return self.mysql.query("SELECT COUNT(*) FROM tally_ledger")[0][0]

    def counted(self):
        """Everything there is, half merged or not."""
        self.daemon.pause()
        try:
            return counted(self.redis.client(), self.mysql, FAMILIES)
        finally:
            self.daemon.resume()

    def exact(self):
        """Hits go on; all is merged; MySQL alone has what was answered, and nothing else."""
        self.hits()
        self.daemon.sync_all()
        assert read_mysql(self.mysql, FAMILIES)[0] == self.acked
        self.daemon.verify()
