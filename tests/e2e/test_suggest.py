"""`tallyd suggest` reads a table and examples of what the app sends, and prints the lines of the configuration: with them `check`
passes, and the rows become those that the table's program makes."""
import re
import subprocess

import pytest

from harness.books import nothing_left
from harness.daemon import TALLYD, yaml_of
from harness.resp import RespError
from harness.wait import patience, wait_until
from test_tables import KEY, REJECTED, SHAPES, by_the_program, run_all

# What no table and no key tells; the comment that says so.
LEFT = {
    "shopware, visitors by device, without a unique key": "# deviceType is in no key: if it tells rows of one key apart, add"
                                                          " constants: { deviceType: \"desktop\" } (the table has desktop, mobile)",
    "wordpress popular posts, the first and the last day": "# rows have source, which the program fills, so no row is made; if"
                                                           " one shall be, write `set` in place of `missing`",
}
# Rows of the program's own: what is hit and not there is a reject. (Whether it is dropped is the shop's wish.)
REJECTED = {**REJECTED, "lang:1:products_viewed": [("lang:1:products_viewed", 99, 1)]}


def unconfigured(make_daemon, redis):
    daemon = make_daemon(redis, start=False, migrate=False)
    del daemon.config["counters"]
    daemon.write_config()
    return daemon


def suggest(daemon, table, hits=(), counter=None, status=0):
    keys = [word for key, field, delta in hits for word in ("--key", f"HINCRBY {key} {field} {delta}")]
    done = daemon.verb("suggest", table, *keys, *(["--counter", counter] if counter else []))
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def suggest_alone(daemon, table, key):
    return daemon.verb("suggest", table, "--key", key).stdout


def configure(daemon, lines):
    with open(daemon.config_path, "w", encoding="utf-8") as out:
        out.write(yaml_of(daemon.config) + "counters:\n" + lines)


def hits_of(family, hits):
    form = re.sub("<[a-z]+>", "[^:]+", family["key"])
    return [hit for hit in hits if re.fullmatch(form, hit[0])]


def mended(mysql, lines):
    """Does what the comments ask for."""
    mends = dict.fromkeys(re.findall(r"^ *# +mend it with: (.*);$", lines, re.MULTILINE))
    for mend in mends:
        assert not any(word in mend for word in ("DROP", "MODIFY", "CHANGE")), mend
        run_all(mysql, [mend])
    return " ".join(mends)


def suggested(name, make_daemon, redis, mysql):
    """The shape's tables, and a daemon that has the lines for its counters."""
    tables, families, seed, _, hits, _, _, _ = SHAPES[name]
    daemon = unconfigured(make_daemon, redis)
    run_all(mysql, [*tables, *seed])
    lines = "".join(suggest(daemon, family["table"], hits_of(family, hits), counter) for counter, family in families.items())
    configure(daemon, lines)
    return daemon.migrate(), lines


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in LEFT])
def test_as_the_program_does(name, make_daemon, redis, mysql):
    tables, _, seed, app, hits, own, rows, asked = SHAPES[name]
    expected = by_the_program(mysql, tables, seed, app, rows)
    daemon, lines = suggested(name, make_daemon, redis, mysql)
    done = mended(mysql, lines)
    assert all(word in done for word in asked), lines
    done = daemon.verb("check")
    assert done.returncode == 0, lines + done.stderr
    daemon.start()
    with daemon.client() as client:
        for hit in hits:
            assert not isinstance(client.call("HINCRBY", *hit), RespError), lines
        daemon.sync_all()
    wait_until(lambda: nothing_left(redis.client()), 30, "all is merged")
    assert mysql.query(rows) == expected, lines
    assert sorted(mysql.query("SELECT pending_hash, field, delta FROM tally_rejects")) == sorted(
        tuple(str(word).encode() for word in hit) for hit in REJECTED.get(hits[0][0], ())), lines
    for statement in own:
        mysql.query(statement)
    daemon.verify()


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_is_said(name, make_daemon, redis, mysql):
    """A value of the key that only the app knows."""
    daemon, lines = suggested(name, make_daemon, redis, mysql)
    assert LEFT[name] in lines, lines
    if KEY not in SHAPES[name][-1]:
        assert daemon.verb("check").returncode == 0, lines


@pytest.mark.parametrize("name", SHAPES)
def test_without_an_example(name, make_daemon, redis, mysql):
    """A key is invented; the rest is as if it were sent. What the comments ask for, check does too, and nothing else."""
    tables, families, seed, *_ = SHAPES[name]
    daemon = unconfigured(make_daemon, redis)
    run_all(mysql, [*tables, *seed])
    lines = suggest(daemon, next(iter(families.values()))["table"])
    assert "# invented: no --key was given" in lines
    configure(daemon, lines)
    daemon.migrate()
    if name in LEFT:
        return
    mended(mysql, lines)
    done = daemon.verb("check")
    assert done.returncode == 0, lines + done.stderr


SPELLINGS = {
    "20240501 (DATE)": ("day DATE NOT NULL", "20240501", "date"),
    "dashes": ("day DATE NOT NULL", "2024-05-01", "date 2024-05-01"),
    "an hour": ("at DATETIME NOT NULL", "2024-05-01 13", "hour 2024-05-01 13"),
    "an hour with T": ("at DATETIME NOT NULL", "2024-05-01T13", "hour 2024-05-01T13"),
    "midnight": ("day DATE NOT NULL", "1714521600", "date seconds"),
    "a full hour": ("at DATETIME NOT NULL", "1714568400000", "hour milliseconds"),
    "a month": ("month INT NOT NULL", "202405", "month"),
    "a month of a text": ("period CHAR(7) NOT NULL", "2024-05", "month 2024-05"),
    "an id that looks like a day": ("article_id INT NOT NULL", "20240501", "integer"),
    "a word": ("term VARCHAR(99) NOT NULL", "red shoes: 42", "text"),
}


@pytest.mark.parametrize("column,value,field", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_value_says_its_kind(column, value, field, make_daemon, redis, mysql):
    daemon = unconfigured(make_daemon, redis)
    name = column.split()[0]
    mysql.query(f"CREATE TABLE seen (product_id INT NOT NULL, {column}, views BIGINT NOT NULL, PRIMARY KEY (product_id, {name}))")
    lines = suggest(daemon, "seen", [("product:42:views", value, 1)])
    assert f"\n    field: {field}\n" in lines and 'key: "product:<product>:views"' in lines, lines
    assert f"columns: {{ product: product_id, field: {name}, count: views }}" in lines, lines
    configure(daemon, lines)
    assert daemon.migrate().verb("check").returncode == 0


def test_an_id_or_a_slug(make_daemon, redis, mysql):
    """A table with both has a row for either; a field that only names the count has no column."""
    daemon = unconfigured(make_daemon, redis)
    mysql.query("CREATE TABLE articles (id INT AUTO_INCREMENT PRIMARY KEY, author_id INT NOT NULL, article_slug VARCHAR(99) NOT NULL,"
                " title VARCHAR(99) NOT NULL, views INT NOT NULL DEFAULT 0, updated_at TIMESTAMP NULL, UNIQUE KEY (article_slug))")
    for value, field, column in ((7, "integer", "id"), ("hello-world", "text", "article_slug")):
        lines = suggest(daemon, "articles", [("article:views", value, 1)])
        assert f"field: {field}\n" in lines and f"columns: {{ field: {column}, count: views }}" in lines, lines
        assert "missing: reject" in lines and "set:" not in lines, lines
        configure(daemon, lines)
        assert daemon.migrate().verb("check").returncode == 0


def test_fields_that_name_counts_and_keys_without(make_daemon, redis, mysql):
    daemon = unconfigured(make_daemon, redis)
    mysql.query("CREATE TABLE articles (id INT AUTO_INCREMENT PRIMARY KEY, author_id INT NOT NULL, slug VARCHAR(99) NOT NULL,"
                " view_count BIGINT NOT NULL DEFAULT 0, likes BIGINT NOT NULL DEFAULT 0, UNIQUE KEY (slug))")
    mysql.query("CREATE TABLE dl (package_id INT NOT NULL, day DATE NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (package_id, day))")
    mysql.query("INSERT INTO articles VALUES (7, 1, 's', 10, 1)")
    lines = suggest(daemon, "articles", [("article:7", "views", 1), ("article:8", "likes", 1), ("article:9", "views", 1)])
    assert 'field: count\n' in lines and 'columns: { id: id, counts: { "views": view_count, "likes": likes } }' in lines, lines
    done = suggest_alone(daemon, "dl", "INCR dl:42:20240501")
    assert "field: none\n" in done and "columns: { package: package_id, day: day, count: n }" in done, done
    configure(daemon, lines + done)
    done = daemon.migrate().verb("check")
    assert done.returncode == 0, lines + done.stderr
    daemon.start()
    with daemon.client() as client:
        client.pipeline([("HINCRBY", "article:7", "views", 3), ("HINCRBY", "article:7", "likes", 2), ("INCR", "dl:42:20240501")])
        daemon.sync_all()
    assert mysql.query("SELECT view_count, likes FROM articles") == ((13, 3),)
    assert mysql.query("SELECT package_id, n FROM dl") == ((42, 1),)
    assert "field: none\n" in suggest_alone(daemon, "dl", "downloads")
    mysql.query("CREATE TABLE kinds (kind VARCHAR(9) NOT NULL, day DATE NOT NULL, views INT NOT NULL, PRIMARY KEY (kind, day))")
    mysql.query("INSERT INTO kinds VALUES ('views', '2024-05-01', 1)")
    assert "columns: { day: day, field: kind, count: views }" in suggest(daemon, "kinds", [("stats:20240501", "views", 1)])


def test_what_it_says_of_its_guesses(make_daemon, redis, mysql):
    daemon = unconfigured(make_daemon, redis)
    mysql.query("CREATE TABLE product_stats (store_id INT NOT NULL, product_id INT NOT NULL, kind CHAR(4) NOT NULL, views SMALLINT NOT NULL"
                " DEFAULT 0, clicks INT NOT NULL DEFAULT 0, updated_at DATETIME NOT NULL, created_at DATETIME NOT NULL,"
                " PRIMARY KEY (store_id, product_id, kind)) COLLATE latin1_german1_ci")
    mysql.query("INSERT INTO product_stats VALUES (1, 1, 'app', 1, 1, NOW(), NOW()), (1, 2, 'web', 30000, 1, NOW(), NOW())")
    lines = suggest(daemon, "product_stats", [("s7:product_views", 42, 1)], "views_of_products")
    for part in ("  views_of_products:\n", 'key: "s<store>:product_views"', "field: integer", "store: store_id, field: product_id,",
                 'constants: { kind: "app" }', "# no value of the key fits; kind has app, web",
                 "set: { updated_at: now, created_at: now at insert }", "# the count could also be clicks", "the highest count is 30000"):
        assert part in lines, lines
    lines = suggest(daemon, "product_stats", [("web:s7:product_views", 42, 1)])
    assert 'key: "<kind>:s<store>:product_views"' in lines and "kinds: { kind: text }" in lines, lines
    mysql.query("DELETE FROM product_stats")
    assert "kind has no rows: write what it shall be" in suggest(daemon, "product_stats", [("s7:product_views", 42, 1)])
    mysql.query("DROP TABLE product_stats")
    mysql.query("CREATE TABLE product_stats (store_id INT NOT NULL, product_id INT NOT NULL, views INT, PRIMARY KEY (store_id, product_id))")
    assert "# no column for the field \"red\"" in suggest(daemon, "product_stats", [("s7:product:42", "red", 1)])
    assert "# the example s7:views x does not fit" in suggest(daemon, "product_stats", [("s7:views", 42, 1), ("s7:views", "x", 1)])


NO_COUNTER = {
    "a view": (["CREATE TABLE t (id INT PRIMARY KEY, views INT)", "CREATE VIEW page_hits AS SELECT * FROM t"],
               "page_hits is a view: name the table itself"),
    "no integer": (["CREATE TABLE page_hits (page VARCHAR(9) PRIMARY KEY, rate DOUBLE)"], "page_hits is no counter table: no column could be a count"),
    "json": (["CREATE TABLE page_hits (id INT AUTO_INCREMENT PRIMARY KEY, stats JSON)"],
             "tallyd adds nothing to what is inside stats"),
    "names and values": (["CREATE TABLE page_hits (meta_id BIGINT AUTO_INCREMENT PRIMARY KEY, post_id BIGINT NOT NULL,"
                          " meta_key VARCHAR(255), meta_value LONGTEXT)"], "tallyd adds nothing to what is inside meta_value"),
    "a row for each hit": (["CREATE TABLE page_hits (id INT AUTO_INCREMENT PRIMARY KEY, product_id INT NOT NULL, user_id INT,"
                            " created_at DATETIME NOT NULL)"], "it seems to have a row for each hit"),
}


@pytest.mark.parametrize("ddl,why", NO_COUNTER.values(), ids=NO_COUNTER.keys())
def test_no_counter_table(ddl, why, make_daemon, redis, mysql):
    daemon = unconfigured(make_daemon, redis)
    for statement in ddl:
        mysql.query(statement)
    assert why in suggest(daemon, "page_hits", status=78)


def test_what_cannot_be_asked(make_daemon, redis, mysql):
    daemon = unconfigured(make_daemon, redis)
    assert "there is no table page_hits" in suggest(daemon, "page_hits", status=78)
    assert "is no name of a table" in suggest(daemon, "page`hits", status=64)
    assert "is no name of a counter" in suggest(daemon, "page_hits", counter="A b", status=64)
    mysql.query("CREATE TABLE page_hits (page_id INT PRIMARY KEY, hits INT NOT NULL DEFAULT 0)")
    for example in ("page:42 ", "HINCRBY page:42 7", "HINCRBY page:42 7 x", "HINCRBY page:42  7"):
        done = daemon.verb("suggest", "page_hits", "--key", example)
        assert done.returncode == 64 and "give a key and a field" in done.stderr, done.stderr
    assert "which table?" in daemon.verb("suggest").stderr
    assert "  page_hits:\n" in daemon.verb("suggest", "page_hits", "--key", "page:hits 42").stdout


@pytest.mark.parametrize("counters", ["", "counters: {}\n"])
def test_check_names_it(counters, make_daemon, redis):
    daemon = unconfigured(make_daemon, redis)
    with open(daemon.config_path, "a", encoding="utf-8") as out:
        out.write(counters)
    done = daemon.verb("check")
    assert done.returncode == 78 and "`tallyd suggest TABLE` prints" in done.stderr, done.stderr


def test_help_says_how():
    done = subprocess.run([TALLYD, "suggest", "--help"], capture_output=True, text=True, timeout=patience(60), check=True)
    assert "usage: tallyd suggest TABLE " in done.stdout and "--key EXAMPLE" in done.stdout


def test_a_value_that_the_column_has(make_daemon, redis, mysql):
    """Of columns that could have it, the one with that value; the others of the key are constants."""
    mysql.query("CREATE TABLE obj_stat (obj_id INT NOT NULL, yyyy INT NOT NULL, mm INT NOT NULL, dd INT NOT NULL, hh INT NOT NULL,"
                " read_count INT NULL, PRIMARY KEY (obj_id, yyyy, mm, dd, hh))")
    mysql.query("INSERT INTO obj_stat VALUES (42, 2024, 5, 1, 13, 10)")
    lines = suggest(unconfigured(make_daemon, redis), "obj_stat", [("obj:42:reads", "13", 3)])
    assert "field: hh, " in lines and "constants: { yyyy: 2024, mm: 5, dd: 1 }" in lines, lines
