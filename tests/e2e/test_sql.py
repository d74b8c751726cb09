"""sql/README.md: the rights that tallyd's account needs and no more, the views, and the role that reads them."""
import os
import re
import subprocess

import pymysql
import pytest

from harness.daemon import counters
from harness.programs import MYSQLD
from harness.wait import patience, wait_until

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sql/README.md")
DAY = "SELECT visitors FROM daily_visitors WHERE store_id = 12345"


def blocks():
    with open(README, encoding="utf-8") as file:
        found = re.findall(r"^```sql\n(.*?)^```", file.read(), re.M | re.S)
    return [re.sub(r"^.*; -- MySQL: (.*)$", r"\1;", block, flags=re.M) if MYSQLD else block for block in found]


def paste(mysql, block):
    """As root, in the shop's database."""
    done = subprocess.run(["mariadb", "--no-defaults", "-u", "root", "-S", mysql.socket, "shop"], input=block,
                          capture_output=True, text=True, timeout=patience(60), check=False)
    assert done.returncode == 0, done.stderr


def url(mysql, user):
    return f"mysql://{user}:choose%20one@localhost/shop?socket={mysql.socket}"


@pytest.fixture
def users(mysql):
    yield blocks()
    for user in ("tally@localhost", "tally_least@localhost", "panel@localhost"):
        mysql.query(f"DROP USER IF EXISTS {user}")
    mysql.query("DROP ROLE IF EXISTS tally_reader")


def counts(daemon, mysql):
    """A hit comes through, the books balance, and the verbs that only look work too."""
    daemon.start()
    with daemon.client() as client:
        client.call("HINCRBY", "s12345:unique_visitors:daily", "20140920", 3)
        client.call("HINCRBY", "s12345:product_views", "9" * 18, 1)
    daemon.sync_all()
    assert mysql.query(DAY) == ((3,),)
    daemon.verify()
    for words in (["check"], ["recover"]):
        done = daemon.verb(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "denied" not in daemon.log()


def test_rights_of_an_account_that_migrates(make_redis, make_daemon, mysql, users):
    paste(mysql, users[0])
    daemon = make_daemon(make_redis(appendfsync="always"), start=False, mysql_url=url(mysql, "tally"))
    done = daemon.verb("migrate", "--tables")
    assert done.returncode == 0, done.stdout + done.stderr
    counts(daemon, mysql)
    refused = daemon.verb("migrate", "--views")
    assert refused.returncode == 78 and "an administrator pastes what" in refused.stderr, refused.stdout + refused.stderr
    mysql.query("GRANT CREATE VIEW, DROP ON shop.* TO tally@localhost")
    for _ in range(2):
        done = daemon.verb("migrate", "--views")
        assert done.returncode == 0 and "5 views are there" in done.stdout, done.stdout + done.stderr
        assert "the role tally_reader was not made" in done.stdout and "migrate --print --views" in done.stdout
    paste(mysql, daemon.verb("migrate", "--print", "--views").stdout)
    assert mysql.query("SELECT COUNT(*) FROM mysql.tables_priv WHERE User = 'tally_reader'") == ((5,),)


def test_least_rights(make_redis, make_daemon, mysql, users):
    redis = make_redis(appendfsync="always")
    administrator = make_daemon(redis, start=False)
    paste(mysql, administrator.verb("migrate", "--print", "--tables").stdout)
    paste(mysql, users[1])
    daemon = make_daemon(redis, start=False, migrate=False, mysql_url=url(mysql, "tally_least"))
    counts(daemon, mysql)
    assert daemon.terminate() == 0
    mysql.query("REVOKE INSERT ON shop.product_views FROM tally_least@localhost")  # it is the rights that let it
    daemon.start()
    with daemon.client() as client:
        client.call("HINCRBY", "s1:product_views", "1", 50)
    daemon.log_contains("INSERT command denied")


def test_the_right_to_read_names(make_redis, make_daemon, mysql, users):
    """`check` names what is missing: the table, a column, the right; with the GRANT that sql/README.md has."""
    labels = {"product_views": {"labels": {"table": "products", "id": "product_id", "name": "title"}}}
    redis = make_redis(appendfsync="always")
    make_daemon(redis, start=False).migrate()
    paste(mysql, users[1])
    daemon = make_daemon(redis, start=False, migrate=False, mysql_url=url(mysql, "tally_least"),
                         families=counters(**labels))
    mysql.query("CREATE TABLE products (product_id BIGINT PRIMARY KEY, title VARCHAR(100) CHARACTER SET utf8mb4)")
    done = daemon.verb("check")
    assert done.returncode == 0 and "counter product_views: labels cannot be read" in done.stdout, done.stdout + done.stderr
    wanted = users[2].strip()
    assert wanted == "GRANT SELECT ON shop.products TO tally_least@localhost;"
    grant = re.search(r"mend it with: (GRANT .*;)", done.stdout).group(1)
    assert re.sub(r"[`']", "", grant) == wanted
    paste(mysql, grant)
    done = daemon.verb("check")
    assert done.returncode == 0 and "labels" not in done.stdout, done.stdout + done.stderr
    mysql.query("ALTER TABLE products RENAME COLUMN title TO name")
    done = daemon.verb("check")
    assert done.returncode == 0 and "title" in done.stdout and "mend it" not in done.stdout, done.stdout + done.stderr


def test_views_and_their_reader(make_redis, make_daemon, mysql, users):
    daemon = make_daemon(make_redis(appendfsync="always"))
    done = daemon.verb("migrate", "--views")
    assert done.returncode == 0 and "tally_reader may read them" in done.stdout, done.stdout + done.stderr
    paste(mysql, users[4])
    reader = pymysql.connect(unix_socket=mysql.socket, user="panel", password="choose another", database="shop",
                             autocommit=True)
    with reader.cursor() as cursor, daemon.client() as client:
        def read(sql):
            cursor.execute(sql)
            return cursor.fetchall()

        assert read(users[3].strip().rstrip(";")) == ()
        client.call("HINCRBY", "s12345:unique_visitors:daily", "20140920", 7)
        client.call("HINCRBY", "s12345:product_views", "7", 2)
        daemon.sync_all()
        begun = mysql.query("SELECT UTC_TIMESTAMP(3)")[0][0]
        wait_until(lambda: read(users[3].strip().rstrip(";"))[0][2] is not None, 30, "complete_until")
        ((day, visitors, complete_until),) = read(users[3].strip().rstrip(";"))
        assert (str(day), visitors) == ("2014-09-20", 7) and complete_until <= mysql.query("SELECT UTC_TIMESTAMP(3)")[0][0]
        assert (begun - complete_until).total_seconds() < 120
        progress = {row[0]: row[1:] for row in read("SELECT counter, merged, rejected, behind_seconds FROM tally_progress")}
        assert progress["unique_visitors"][:2] == (7, 0) and progress["product_views"][:2] == (2, 0)
        mysql.query("INSERT INTO shop.tally_rejects VALUES (x'00112233445566778899aabbccddeeff', 0, 1, 'searches',"
                    " 's1:searches', x'c3a4', '5', 1, 'too long', UTC_TIMESTAMP(3), NULL, REPEAT(x'00', 16))")
        assert read("SELECT counter, pending_hash, field, delta, reason FROM tally_rejects_waiting") == (
            ("searches", "s1:searches", "ä", "5", "too long"),)
        for refused in ("SELECT * FROM daily_visitors", "SELECT * FROM tally_ledger", "SELECT * FROM tally_counters",
                        "DELETE FROM tally_stored_unique_visitors", "UPDATE tally_progress SET merged = 0"):
            with pytest.raises(pymysql.err.OperationalError, match="denied"):
                cursor.execute(refused)
    reader.close()


def test_a_name_too_long_for_a_view(make_redis, make_daemon, mysql, users):
    families = {"v" * 52: {"key": "s<store>:v", "field": "date", "table": "v",
                           "columns": {"store": "s", "field": "f", "count": "c"}}}
    daemon = make_daemon(make_redis(appendfsync="always"), start=False, families=families)
    done = daemon.verb("migrate", "--tables", "--views")
    assert done.returncode == 0 and "2 views are there" in done.stdout, done.stdout + done.stderr
    assert "1 counters have no view" in done.stdout


def test_views_before_the_tables(make_redis, make_daemon, mysql, users):
    daemon = make_daemon(make_redis(appendfsync="always"), start=False)
    done = daemon.verb("migrate", "--views")
    assert done.returncode == 78 and "views need the merchants' tables" in done.stderr, done.stdout + done.stderr
