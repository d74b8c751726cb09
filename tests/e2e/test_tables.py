"""Tables of shops, forums and packages as their programs make them: tallyd adds its hits to one copy, the program's own statements
to another. The rows are the same, the program's other statements still run, and nothing was altered but what is said."""
import pytest

from harness.books import nothing_left
from harness.resp import RespError
from harness.wait import wait_until

INNODB, KEY = "ENGINE=InnoDB", "ADD UNIQUE KEY"


def counter(key, field, table, columns):
    return {"key": key, "field": field, "sync": {"hits": 10**9, "every": "3600s"}, "table": table, "columns": columns}


# name: the tables, their counters, rows that are there, what the program runs for the hits, the hits, what else it runs, the rows to
# compare, and what check asks for.
SHAPES = {
    "opencart 4, a count of INT": (
        ["CREATE TABLE product_viewed (product_id INT NOT NULL, viewed INT NOT NULL, PRIMARY KEY (product_id))"],
        {"viewed": counter("product:viewed", "integer", "product_viewed", {"field": "product_id", "count": "viewed"})},
        ["INSERT INTO product_viewed VALUES (42, 10)"],
        ["INSERT INTO product_viewed SET product_id = 42, viewed = 3 ON DUPLICATE KEY UPDATE viewed = viewed + 3",
         "INSERT INTO product_viewed SET product_id = 43, viewed = 2 ON DUPLICATE KEY UPDATE viewed = viewed + 2"],
        [("product:viewed", 42, 3), ("product:viewed", 43, 2)],
        ["SELECT product_id, viewed FROM product_viewed ORDER BY viewed DESC LIMIT 0, 20"],
        "SELECT product_id, viewed FROM product_viewed ORDER BY 1", []),
    "mediawiki, AUTO_INCREMENT on the counter's key": (
        ["CREATE TABLE hit_counter (page_id INT(8) UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
         " page_counter BIGINT(20) UNSIGNED NOT NULL DEFAULT 0, KEY page_counter (page_counter))"],
        {"hits": counter("pages:hits", "integer", "hit_counter", {"field": "page_id", "count": "page_counter"})},
        ["INSERT INTO hit_counter VALUES (42, 10)"],
        ["UPDATE hit_counter SET page_counter = page_counter - 3 WHERE page_id = 42",
         "INSERT INTO hit_counter (page_id, page_counter) VALUES (43, 2) ON DUPLICATE KEY UPDATE page_counter = page_counter + 2",
         "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
         "INSERT INTO hit_counter (page_id, page_counter) VALUES (0, 7)"],
        [("pages:hits", 42, -3), ("pages:hits", 43, 2), ("pages:hits", 0, 4), ("pages:hits", 0, 3)],
        [], "SELECT page_id, page_counter FROM hit_counter ORDER BY 1", []),
    "gitlab, an id of its own and nullable keys": (
        ["CREATE TABLE project_daily_statistics (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, project_id INT NOT NULL,"
         " fetch_count INT NOT NULL, date DATE NULL, UNIQUE KEY u (project_id, date))"],
        {"fetches": counter("project:<store>:fetches", "date", "project_daily_statistics",
                            {"store": "project_id", "field": "date", "count": "fetch_count"})},
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (42, 10, '2024-05-01'), (42, 1, NULL)"],
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (42, 3, '2024-05-01')"
         " ON DUPLICATE KEY UPDATE fetch_count = fetch_count + 3"],
        [("project:42:fetches", 20240501, 3)],
        ["INSERT INTO project_daily_statistics (project_id, fetch_count, date) VALUES (77, 1, '2024-05-01')"],
        "SELECT project_id, date, fetch_count FROM project_daily_statistics WHERE project_id <> 77 ORDER BY 1, 2, 3", []),
    "contao, MyISAM and two counters": (
        ["CREATE TABLE tl_visitors_counter (id INT UNSIGNED NOT NULL AUTO_INCREMENT, vid INT UNSIGNED NOT NULL DEFAULT 0,"
         " visitors_date DATE NOT NULL DEFAULT '1999-01-01', visitors_visit INT UNSIGNED NOT NULL DEFAULT 0,"
         " visitors_hit INT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (id), UNIQUE KEY vid_date (vid, visitors_date)) ENGINE=MyISAM"],
        {kind: counter(f"counter:<store>:{kind}s", "date", "tl_visitors_counter",
                       {"store": "vid", "field": "visitors_date", "count": f"visitors_{kind}"}) for kind in ("visit", "hit")},
        ["INSERT INTO tl_visitors_counter (vid, visitors_date, visitors_visit, visitors_hit) VALUES (1, '2024-05-01', 5, 10)"],
        ["INSERT INTO tl_visitors_counter (vid, visitors_date, visitors_visit, visitors_hit) VALUES (1, '2024-05-01', 1, 3)"
         " ON DUPLICATE KEY UPDATE visitors_visit = visitors_visit + 1, visitors_hit = visitors_hit + 3"],
        [("counter:1:visits", 20240501, 1), ("counter:1:hits", 20240501, 3)],
        ["SELECT id, visitors_visit FROM tl_visitors_counter WHERE visitors_date = '2024-05-01' AND vid = 1"],
        "SELECT vid, visitors_date, visitors_visit, visitors_hit FROM tl_visitors_counter ORDER BY 1, 2", [INNODB]),
    "smf, narrow counts": (
        ["CREATE TABLE log_activity (date DATE NOT NULL, hits MEDIUMINT UNSIGNED NOT NULL DEFAULT 0,"
         " posts SMALLINT UNSIGNED NOT NULL DEFAULT 0, most_on SMALLINT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (date))"],
        {kind: counter(f"forum:{kind}", "date", "log_activity", {"field": "date", "count": kind}) for kind in ("hits", "posts")},
        ["INSERT INTO log_activity (date, hits, posts) VALUES ('2024-05-01', 10, 2)"],
        ["INSERT INTO log_activity (date, hits, posts) VALUES ('2024-05-01', 3, 1)"
         " ON DUPLICATE KEY UPDATE hits = hits + 3, posts = posts - 1"],
        [("forum:hits", 20240501, 3), ("forum:posts", 20240501, -1)],
        ["UPDATE log_activity SET most_on = 9 WHERE date = '2024-05-01'"],
        "SELECT date, hits, posts FROM log_activity ORDER BY 1", []),
    "discuz, a day as a number": (
        ["CREATE TABLE common_stat (daytime INT(10) UNSIGNED NOT NULL DEFAULT 0, login INT(10) UNSIGNED NOT NULL DEFAULT 0,"
         " post INT(10) UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (daytime)) ENGINE=MyISAM"],
        {kind: counter(f"stat:{kind}", "date", "common_stat", {"field": "daytime", "count": kind}) for kind in ("login", "post")},
        ["INSERT INTO common_stat (daytime, login) VALUES (20240501, 10)"],
        ["INSERT INTO common_stat (daytime, login, post) VALUES (20240501, 3, 1)"
         " ON DUPLICATE KEY UPDATE login = login + 3, post = post + 1"],
        [("stat:login", 20240501, 3), ("stat:post", 20240501, 1)],
        [], "SELECT daytime, login, post FROM common_stat ORDER BY 1", [INNODB]),
    "crates.io, other columns with defaults": (
        ["CREATE TABLE version_downloads (version_id INT NOT NULL, downloads INT NOT NULL DEFAULT 1, counted INT NOT NULL DEFAULT 0,"
         " date DATE NOT NULL DEFAULT (CURRENT_DATE), processed TINYINT(1) NOT NULL DEFAULT 0, PRIMARY KEY (version_id, date))"],
        {"downloads": counter("version:<store>:downloads", "date", "version_downloads",
                              {"store": "version_id", "field": "date", "count": "downloads"})},
        ["INSERT INTO version_downloads (version_id, downloads, date) VALUES (42, 10, '2024-05-01')"],
        ["INSERT INTO version_downloads (version_id, downloads, date) VALUES (42, 3, '2024-05-01')"
         " ON DUPLICATE KEY UPDATE downloads = downloads + 3"],
        [("version:42:downloads", 20240501, 3)],
        ["UPDATE version_downloads SET counted = downloads WHERE version_id = 77"],
        "SELECT version_id, date, downloads, counted, processed FROM version_downloads ORDER BY 1, 2", []),
    "no unique key, and counts that are NULL": (
        ["CREATE TABLE statistics (shop INT NOT NULL, day DATE NOT NULL, impressions INT DEFAULT NULL, KEY (day))"],
        {"impressions": counter("shop:<store>:impressions", "date", "statistics",
                                {"store": "shop", "field": "day", "count": "impressions"})},
        ["INSERT INTO statistics VALUES (1, '2024-05-01', NULL), (1, '2024-05-02', 4)"],
        ["UPDATE statistics SET impressions = COALESCE(impressions, 0) + 3 WHERE shop = 1 AND day = '2024-05-01'",
         "UPDATE statistics SET impressions = impressions + 2 WHERE shop = 1 AND day = '2024-05-02'"],
        [("shop:1:impressions", 20240501, 3), ("shop:1:impressions", 20240502, 2)],
        [], "SELECT shop, day, impressions FROM statistics ORDER BY 1, 2", [KEY]),
}


def shape_of(mysql, tables):
    """As MySQL says it, but for ids that were given out."""
    said = (mysql.query(f"SHOW CREATE TABLE {ddl.split()[2]}")[0][1] for ddl in tables)
    return [" ".join(word for word in text.split() if not word.startswith("AUTO_INCREMENT=")) for text in said]


def by_the_program(mysql, tables, seed, app, rows):
    """The rows as the program's own statements make them, one session; its tables are gone again."""
    link = mysql.connect()
    try:
        with link.cursor() as cursor:
            for statement in [*tables, *seed, *app, rows]:
                cursor.execute(statement)
            expected = cursor.fetchall()
            for ddl in tables:
                cursor.execute(f"DROP TABLE {ddl.split()[2]}")
    finally:
        link.close()
    return expected


@pytest.mark.fault("schema-unsigned")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_as_the_program_does(shape, make_daemon, redis, mysql):
    tables, families, seed, app, hits, own, rows, asked = shape
    expected = by_the_program(mysql, tables, seed, app, rows)
    daemon = make_daemon(redis, start=False, migrate=False, families=families)
    for statement in [*tables, *seed]:
        mysql.query(statement)
    assert daemon.verb("migrate").returncode == 0
    before = shape_of(mysql, tables)
    done = daemon.verb("check")
    mends = [line.partition("mend it with: ")[2] for line in done.stderr.splitlines() if "mend it with: " in line]
    assert done.returncode == (78 if asked else 0), done.stdout + done.stderr
    assert {word for word in (INNODB, KEY) for mend in mends if word in mend} == set(asked), mends
    for mend in dict.fromkeys(mends):
        assert not any(word in mend for word in ("DROP", "MODIFY", "CHANGE")), mend
        mysql.query(mend.rstrip(";"))
    if not asked:
        assert shape_of(mysql, tables) == before
    daemon.start()
    with daemon.client() as client:
        for key, field, delta in hits:
            assert not isinstance(client.call("HINCRBY", key, field, delta), RespError)
            if key == hits[-1][0] and field == hits[-1][1]:
                daemon.sync_all()
        daemon.sync_all()
    wait_until(lambda: nothing_left(redis.client()), 30, "all is merged")
    assert mysql.query(rows) == expected
    for statement in own:
        mysql.query(statement)
    daemon.verify()


@pytest.mark.fault("schema-folding")
def test_what_is_the_shops_stays(make_daemon, redis, mysql):
    """Tables that do not fit: the reason, and no statement that changes what the shop made."""
    for ddl, reason in (
            ("CREATE TABLE product_views (id INT AUTO_INCREMENT PRIMARY KEY, store_id BIGINT NOT NULL, product_id BIGINT NOT NULL,"
             " views FLOAT NOT NULL, UNIQUE KEY u (store_id, product_id))", "float, which does not hold a count"),
            ("CREATE TABLE product_views (store_id BIGINT NOT NULL, product_id BIGINT NOT NULL, views INT NOT NULL,"
             " slug VARCHAR(9) NOT NULL DEFAULT '', UNIQUE KEY s (slug), PRIMARY KEY (store_id, product_id))", "another row"),
            ("CREATE TABLE product_views (store_id BIGINT NOT NULL, product_id BIGINT NOT NULL, views INT NOT NULL,"
             " model VARCHAR(9) NOT NULL, PRIMARY KEY (store_id, product_id))", "NOT NULL without a default"),
            ("CREATE TABLE searches (store_id BIGINT NOT NULL, term VARCHAR(99) NOT NULL, searches INT NOT NULL,"
             " PRIMARY KEY (store_id, term)) CHARSET=utf8mb4", "takes different fields for one row")):
        daemon = make_daemon(redis, start=False).migrate()
        mysql.query(f"DROP TABLE {ddl.split()[2]}")
        mysql.query(ddl)
        done = daemon.verb("check")
        assert done.returncode == 78 and reason in done.stderr and "mend it with" not in done.stderr, done.stderr
        mysql.query(f"DROP TABLE {ddl.split()[2]}")


def test_a_sum_below_zero(make_daemon, redis, mysql):
    """An UNSIGNED count takes what it can; the rest is a reject, which can be replayed when there is room; adjust the same."""
    families = {"hits": counter("pages:hits", "integer", "hit_counter", {"field": "page_id", "count": "n"})}
    mysql.query("CREATE TABLE hit_counter (page_id INT NOT NULL PRIMARY KEY, n INT UNSIGNED NOT NULL)")
    mysql.query("INSERT INTO hit_counter SELECT seq, 5 FROM seq_1_to_40")
    daemon = make_daemon(redis, families=families)
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "pages:hits", page, -6 if page == 7 else -5 if page % 2 else 5) for page in range(1, 41)])
        daemon.sync_all()
        assert client.call("CTR.TOTAL", "pages:hits", 7, 9, 10) == [5, 0, 10]
    assert mysql.query("SELECT SUM(n), SUM(n = 0) FROM hit_counter")[0] == (20 * 10 + 5, 19)
    assert mysql.query("SELECT field, delta FROM tally_rejects WHERE replayed_at IS NULL") == ((b"7", b"-6"),)
    daemon.verify()
    where = ["--counter", "hits", "--field", "7", "--reason", "returned"]
    assert daemon.verb("adjust", *where, "--by", "-6").returncode == 1
    assert daemon.verb("adjust", *where, "--by", "1").returncode == 0
    assert daemon.verb("rejects", "replay", "--all").returncode == 0
    assert mysql.query("SELECT n FROM hit_counter WHERE page_id = 7") == ((0,),)
    assert daemon.verb("adjust", *where, "--set", "3").returncode == 0
    assert mysql.query("SELECT n FROM hit_counter WHERE page_id = 7") == ((3,),)
    daemon.verify()
