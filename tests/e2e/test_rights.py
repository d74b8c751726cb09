"""tallyd's own user in Redis has the rights that the page names, and no other: what tallyd does on one Redis is within them."""
import datetime
import os
import re

from harness.daemon import counters
from harness.ports import port
from harness.resp import RespError
from harness.wait import wait_until

PAGE = __file__.rsplit("/", 3)[0] + "/config/README.md"
TODAY = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
FED = {"product_views": {"feeds": {"series": "s<store>:views", "box": "s<store>:views", "event": "s<store>:view"}}}


def test_the_rights_of_the_page_are_enough(make_redis, make_daemon, mysql, workdir):
    held = port()
    server = make_redis("owned", extra=["--port", str(held), "--bind", "127.0.0.1"])
    with open(PAGE, encoding="utf-8") as page:
        (line,) = re.findall(r"`(ACL SETUSER tally on [^`]*)`", page.read())
    root = server.client()
    password = f"{workdir}/hush"
    with open(os.open(password, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as out:
        out.write("hush\n")
    root.execute_command(*line.replace("PASSWORD", "hush").split())
    daemon = make_daemon(server, families=counters(hits=5, every="1s", **FED), start=False,
                         more={"redis": {"url": f"redis://tally@127.0.0.1:{held}/0", "password_file": password},
                               "uniques": {"name": "s<store>:visitors", "feeds": {"counter": "unique_visitors"}}})
    daemon.migrate()
    assert daemon.verb("check").returncode == 0
    for less, named in [(("-hincrby", "-eval"), "lacks rights, as +HINCRBY +EVAL:"), (("resetkeys", "~tally:*", "~s*:searches"),
                        "lacks rights, as ~s<store>:unique_visitors:daily ~s<store>:product_views:"), (("resetkeys", "~s*"), "as ~tally:*:")]:
        root.execute_command("ACL", "SETUSER", "tally", *less)
        checked = daemon.verb("check")
        assert checked.returncode == 78 and named in checked.stderr, checked.stderr
        root.execute_command("ACL", "SETUSER", "tally", "~*", "+hincrby", "+eval")
    root.execute_command("ACL", "LOG", "RESET")
    daemon.start()
    with daemon.client() as client:
        for words in [("HINCRBY", "s1:product_views", 7, 5), ("HINCRBY", "s1:product_views", 7, 1), ("CTR.INCRBY", "s1:searches", "x", 1, "TOKEN", "a"), ("UNIQ.ADD", "s1:visitors", TODAY, 8),
                      ("SERIES.INCRBY", "s1:more", 1), ("BOX.INCRBY", "s1:more", 1), ("EVENT.ADD", "s1:more", "seen"), ("WAIT", 0, 1),
                      ("CTR.PENDING", "s1:product_views"), ("CTR.TOTAL", "s1:product_views", 7), ("SERIES.GET", "s1:more", 1),
                      ("UNIQ.COUNT", "s1:visitors", TODAY), ("EVENT.COUNT", "s1:more", "seen", 60, 60), ("EXISTS", "s1:product_views")]:
            said = client.call(*words)
            assert not isinstance(said, RespError), (words, said)
        daemon.sync_all()
        client.call("HINCRBY", "s2:product_views", 7, 1)
    daemon.kill9()
    daemon.start()
    daemon.sync_all()
    assert daemon.verb("recover").returncode == 0
    wait_until(lambda: mysql.query("SELECT store_id, views FROM product_views ORDER BY 1") == ((1, 6), (2, 1)), 60, "all is there")
    assert daemon.verb("status").returncode == 0
    daemon.verify()
    assert root.execute_command("ACL", "LOG") == []
