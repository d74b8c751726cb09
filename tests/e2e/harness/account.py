"""What clients were told of their hits, compared with everything in Redis and MySQL."""
from harness.books import counted, nothing_left
from harness.resp import Closed, encode
from harness.shadow import Shadow
from harness.wait import wait_until


class Account:
    def __init__(self, redis, mysql, families):
        self.redis, self.mysql, self.families = redis, mysql, families
        self.shadow = Shadow()

    def hit(self, daemon, requests, timeout_s=60):
        """requests: (key, field, delta), one pipeline on a connection of its own; the replies that came."""
        requests = [(key.encode(), str(field).encode(), delta) for key, field, delta in requests]
        replies = []
        try:
            with daemon.client(timeout_s) as client:
                client.send(b"".join(encode("HINCRBY", *request) for request in requests))
                for _ in requests:
                    replies.append(client.reply())
        except (Closed, OSError):
            pass
        self.shadow.settle(requests, replies)
        return replies

    def pending(self, daemon, requests):
        """Hits that are in Redis and not due: after a merge that set the locks, with thresholds far away."""
        keys = {key for key, _, _ in requests}
        assert all(isinstance(reply, int) for reply in self.hit(daemon, [(key, 0, 1) for key in keys]))
        daemon.sync_all()
        assert all(isinstance(reply, int) for reply in self.hit(daemon, requests))

    @property
    def acked(self):
        return sum(self.shadow.acked.values())

    @property
    def unknown(self):
        return sum(self.shadow.unknown.values())

    def merged(self):
        """The sum in MySQL."""
        tables = [(family["columns"]["count"], family["table"]) for family in self.families.values()]
        return sum(int(self.mysql.query(f"SELECT COALESCE(SUM({count}), 0) FROM {table}")[0][0]) for count, table in tables)

    def check(self, redis=None):
        """Field by field, exactly but for unanswered hits; nothing may be moving."""
        self.shadow.check(counted((redis or self.redis).client(), self.mysql, self.families))

    def settle(self, daemon, redis=None):
        """Merges all; then MySQL has it, and the books balance."""
        daemon.sync_all()
        wait_until(lambda: nothing_left((redis or self.redis).client()), 30, "nothing is left in Redis")
        self.check(redis)
        daemon.verify()
