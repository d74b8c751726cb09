"""config/recipes.md, as it stands: its counters, its lines of apps and its SELECTs, on a real Redis and MariaDB."""
import glob
import os
import re
import shutil
import subprocess
import time

import pymysql
import pytest

from harness.daemon import yaml_of
from harness.programs import NODE_MODULES, PYTHON_CLIENT
from harness.wait import patience, wait_until
from test_panel import day_goes_on

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../config/recipes.md")
LANGUAGES = {"php": ["php", "-r"], "python": [PYTHON_CLIENT, "-c"], "ruby": ["ruby", "-e"], "js": ["node", "-e"], "go": ["go", "run"],
             "java": ["java", "-XX:-UsePerfData"], "sh": ["sh", "-c"]}
FILES = {"go": "hit.go", "java": "Hit.java"}  # what is no argument
FRAMEWORKS = ("WordPress", "Magento", "Rails", "Django")

AGAIN = "A hit that may be sent again"

NO_JAVA = pytest.mark.skipif(shutil.which("javac") is None, reason="no javac: tests/compat/clients.sh installs it")

# What Laravel's connector does of a connection (PhpRedisConnector), over the prefix that it sets by default.
LARAVEL = """namespace Laravel;
function now() { return new \\DateTime(); }
class Redis {
    static function connection($name) {
        $config = [CONNECTION][$name];
        $options = array_merge(['prefix' => 'laravel_database_'], $config['options'] ?? []);
        $client = new \\Redis();
        $client->connect($config['host'], $config['port'], $config['timeout'] ?? 0.0, null, 0, $config['read_timeout'] ?? 0.0);
        if (!empty($options['prefix'])) $client->setOption(\\Redis::OPT_PREFIX, $options['prefix']);
        if (!empty($config['database'])) $client->select($config['database']);
        return $client;
    }
}
"""


# What the lines of Spring meet: of each class what they use, with its signature (Spring Boot 4.1, Spring Data Redis 4.1, Lettuce 7.5). The
# template sends by the stand-in for Jedis to where the properties say; it has the longer increment, too, which tallyd refuses.
SPRING = """import java.time.*;
import java.time.format.*;
import java.util.*;
import redis.clients.jedis.*;
public class Shop {
    @interface Bean {}
    static class ClientOptions {
        enum DisconnectedBehavior { DEFAULT, ACCEPT_COMMANDS, REJECT_COMMANDS }
        static class Builder {
            DisconnectedBehavior away = DisconnectedBehavior.DEFAULT;
            Builder disconnectedBehavior(DisconnectedBehavior behavior) { away = behavior; return this; }
        }
    }
    interface LettuceClientOptionsBuilderCustomizer { void customize(ClientOptions.Builder options); }
    interface HashOperations<H, HK, HV> {
        Long increment(H key, HK hashKey, long delta);
        Double increment(H key, HK hashKey, double delta);
    }
    static class StringRedisTemplate {
        private final Jedis link;
        StringRedisTemplate(Properties p) {
            link = new Jedis(ask(p, "host"), Integer.parseInt(ask(p, "port")), millis(p, "connect-timeout"), millis(p, "timeout"));
            String database = ask(p, "database");
            if (!database.equals("0")) link.sendCommand(() -> "SELECT".getBytes(), database);
            if (!p.isEmpty()) throw new IllegalArgumentException(p.toString());
        }
        static String ask(Properties p, String name) { return (String) p.remove("spring.data.redis." + name); }
        static int millis(Properties p, String name) { return (int) Duration.parse("PT" + ask(p, name)).toMillis(); }
        <HK, HV> HashOperations<String, HK, HV> opsForHash() {
            return new HashOperations<>() {
                public Long increment(String key, HK hashKey, long delta) {
                    return (Long) link.sendCommand(() -> "HINCRBY".getBytes(), key, (String) hashKey, "" + delta);
                }
                public Double increment(String key, HK hashKey, double delta) {
                    return (Double) link.sendCommand(() -> "HINCRBYFLOAT".getBytes(), key, (String) hashKey, "" + delta);
                }
            };
        }
    }
BEAN
    public static void main(String[] words) throws Exception {
        Properties given = new Properties();
        given.load(new java.io.StringReader("PROPERTIES"));
        StringRedisTemplate template = new StringRedisTemplate(given);
        HIT
        ClientOptions.Builder options = new ClientOptions.Builder();
        new Shop().hitsGoOnce().customize(options);
        System.out.print(options.away);
    }
}
"""


def recipes():
    """title -> its blocks, as (language, text); those before the first recipe have the title of the page."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.split(r"^#+ (.*)\n", file.read(), flags=re.M)
    return {title: re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S) for title, text in zip(parts[1::2], parts[2::2])}


class Reader:
    """Does what the page says, in its order."""

    def __init__(self, daemon, mysql, proxy, recipe):
        self.daemon, self.mysql, self.proxy, self.recipe = daemon, mysql, proxy, recipe
        ((_, self.head),) = recipe["Recipes"]

    def run(self, language, code):
        code = code.replace("7370", str(self.proxy.port))
        if language in FILES:
            with open(f"{self.daemon.directory}/{FILES[language]}", "w", encoding="utf-8") as file:
                file.write(code)
            code = file.name
        here = self.daemon.directory
        done = subprocess.run([*LANGUAGES[language], code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(120),
                              check=False, env={"GOPATH": "/usr/share/gocode", "GOCACHE": f"{here}/go", **os.environ, "GO111MODULE": "off",
                                                "CLASSPATH": f"{here}/classes", "TMPDIR": here, "TZ": "UTC", "NODE_PATH": NODE_MODULES})
        assert done.returncode == 0 and not done.stderr and "Warning" not in done.stdout, (code, done.stdout, done.stderr)
        return done.stdout

    def app(self, title):
        for language, code in self.recipe[title]:
            if language not in LANGUAGES:
                continue
            said = self.run(language, self.head + code if language == "php" else code)
            shown = re.search(r"# (\d+)$", code.strip())
            assert said == (shown[1] if shown else ""), (title, said)

    def selects(self, title):
        self.daemon.sync_all()
        for language, text in self.recipe[title]:
            for sql, row in re.findall(r"^(SELECT .*); -- (.*)$", text, re.M) if language == "sql" else ():
                # complete_until is some seconds behind
                wait_until(lambda: self.told(sql) == row, 60, f"{title}: {sql}: {row}")

    def told(self, sql):
        """With the days of UTC, as the apps have them here."""
        rows = self.mysql.query_bare(sql, None, "USE shop", "SET time_zone = '+00:00'")
        return ", ".join(str(value) for row in rows for value in row)


@pytest.fixture
def reader(make_daemon, make_proxy, redis, mysql, free_port):
    """With every `counters:` of the page in one configuration."""
    recipe = recipes()
    texts = [text for blocks in recipe.values() for language, text in blocks if language == "yaml"]
    assert len(texts) >= 3 and all(text.startswith("counters:\n") for text in texts)
    counters = "".join(re.match(r"counters:\n((?: .*\n)+)", text)[1] for text in texts)
    others = "".join(re.sub(r"counters:\n(?: .*\n)+", "", text) for text in texts)
    daemon = make_daemon(redis, start=False, tcp_port=free_port)
    del daemon.config["counters"]
    with open(daemon.config_path, "w", encoding="utf-8") as out:
        out.write(f"{yaml_of(daemon.config)}counters:\n{counters}{others}")
    wait_until(day_goes_on, 60, "the next day")
    assert daemon.verb("migrate", "--tables", "--views").returncode == 0
    checked = daemon.verb("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return Reader(daemon.start(), mysql, make_proxy(daemon.socket, tcp=True), recipe)


def test_recipes(reader, mysql):
    """One after the other: counters, app, SELECT; the total is shown when MySQL is away, too, and nothing is lost then."""
    done = set()
    for title in [title for title in reader.recipe if title.startswith(("Views", "Visitors", "The total", "Yesterday"))]:
        with reader.daemon.client() as client:
            client.call("HINCRBY", "products:views", "7", 1)
        reader.app(title)
        if title.startswith("Yesterday"):  # by its CTR.SYNC alone, what was counted before is there
            assert reader.told("SELECT views FROM product_views WHERE product_id = 7") == str(len(done) + 1)
        reader.selects(title)
        done.add(title)
    mysql.kill9()
    ((_, hits), (_, shows), (_, sums)) = reader.recipe["The total on the page"]
    reader.run("php", reader.head + hits)
    assert reader.run("php", reader.head + shows) == "2"  # the last figure
    assert reader.run("php", reader.head + sums) == "3"
    mysql.start()
    wait_until(lambda: reader.run("php", reader.head + shows) == "3", 60, "the total with what was counted meanwhile")
    assert reader.run("php", reader.head + sums) == "4"
    assert len(done) == 5
    reader.daemon.verify()


def test_an_answer_that_comes_late(reader):
    """What the page's `catch` ends: php-redis would give it to the next command, whose hit is refused here."""
    _, (_, shows), _ = reader.recipe["The total on the page"]
    late = "posix_kill(PID, 19);" + shows + """
        posix_kill(PID, 18);
        sleep(1);
        echo json_encode($shop->rawCommand("CTR.HIT", "no:counter"));"""
    assert reader.run("php", reader.head + late.replace("PID", str(reader.daemon.pid))) == "false"


def test_yesterday_of_any_zone(reader):
    """complete_until is in UTC and the zone tables are empty: today is complete up to midnight of the session's zone, tomorrow is not."""
    reader.selects("Yesterday, complete, for a nightly job")
    with pytest.raises(pymysql.err.OperationalError, match="time zone"):
        reader.mysql.query_bare("SET time_zone = 'Europe/Berlin'")
    sql = re.findall(r"^(SELECT complete_until .*); -- 1$", reader.recipe["Yesterday, complete, for a nightly job"][-1][1], re.M)[0]
    for zone in ("SYSTEM", "-12:00", "+13:00"):
        asked = lambda *more: reader.mysql.query_bare(sql, None, "USE shop", f"SET time_zone = '{zone}'", *more)
        wait_until(lambda: asked() == ((1,),), 60, f"complete in {zone}")
        assert asked("SET timestamp = UNIX_TIMESTAMP() + 86400") == ((0,),), zone


def assert_sent_again(reader, languages):
    """Each link loses its first answer: the programs of these languages send again, and each hit counts once."""
    asked, lost = set(), []

    def lose(link, way, data):
        if way == "up" and b"TOKEN" in data and len(lost) < once[0]:
            asked.add(link)
        if way == "down" and link in asked and data.startswith(b":"):
            lost.append(link)
            asked.discard(link)
            return link.end() or b""
        return data

    once = [0]
    reader.proxy.filter = lose
    programs = [block for block in reader.recipe[AGAIN] if block[0] in LANGUAGES]
    for language, code in [block for block in programs if block[0] in languages]:
        once[0] += 1
        reader.run(language, code)
        assert len(lost) == once[0], "its answer was lost"
    assert once[0] >= len(languages)
    reader.daemon.sync_all()
    (sql, row), = re.findall(r"^(SELECT .*); -- (.*)$", reader.recipe[AGAIN][-1][1], re.M)
    assert int(row) == len(programs) and int(reader.told(sql)) == once[0]
    reader.daemon.verify()


def test_sent_again(reader):
    assert_sent_again(reader, ["php", "python", "ruby"])


def test_queued(reader):
    """No try has an answer, so the hit is queued; sent again from there it is known. CTR.HIT is another request than CTR.INCRBY."""
    lost = []

    def lose(link, way, data):
        if way == "down" and data.startswith(b":") and len(lost) < 3:
            lost.append(link)
            return link.end() or b""
        return data

    reader.proxy.filter = lose
    (code,) = [code for language, code in reader.recipe[AGAIN] if language == "php"]
    assert reader.run("php", code + "foreach ($queue as $hit) echo send($hit) ? 'counted' : 'refused';") == "counted"
    assert len(lost) == 3
    reader.daemon.sync_all()
    assert reader.told("SELECT views FROM product_days WHERE product_id = 43") == "1"
    with reader.daemon.client() as client:
        assert client.call("CTR.HIT", "product:43:views", "TOKEN", "visit") == 1
        day, _ = client.call("CTR.PENDING", "product:43:views")
        assert "came with another increment before" in client.call("CTR.INCRBY", "product:43:views", day, 1, "TOKEN", "visit")


def test_sent_again_by_node(reader, node_modules):
    assert_sent_again(reader, ["js"])


def test_node_goes_on(reader, node_modules, free_port):
    """node-redis: a hit ends soon while tallyd is away or stands still, also when the app starts first; hits count once tallyd is back."""
    (code,) = [code for language, code in reader.recipe[AGAIN] if language == "js" and "createClient" in code]
    app = code[:code.rindex("shop.once(")].replace("7370", str(free_port)) + """
require("readline").createInterface({ input: process.stdin }).on("line", () =>
  hit("product:43:views").then(() => "counted", () => "lost").then(said => console.log(said))).on("close", () => shop.destroy());
console.log("here");"""
    reader.daemon.kill9()
    said = []
    with subprocess.Popen(["node", "-e", app], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "NODE_PATH": node_modules}) as node:
        def hit():
            began = time.monotonic()
            node.stdin.write("\n")
            node.stdin.flush()
            said.append(node.stdout.readline().strip())
            assert time.monotonic() - began < patience(5)  # two seconds on a quiet machine
            return said[-1]

        def goes_on():
            wait_until(lambda: hit() == "counted", 60, "node-redis counts again")

        assert node.stdout.readline() == "here\n"
        assert hit() == "lost"  # nobody was ever there
        reader.daemon.start()
        goes_on()
        reader.daemon.kill9()
        assert hit() == "lost"
        reader.daemon.start()
        goes_on()
        reader.daemon.pause()
        assert hit() == "lost"
        reader.daemon.resume()
        goes_on()
        node.stdin.close()
        assert node.wait(patience(60)) == 0
    reader.daemon.sync_all()
    (views,), = reader.mysql.query("SELECT views FROM product_days WHERE product_id = 43")
    assert said.count("counted") + 1 <= views <= len(said) - 2  # the one of the stop counted, those of the two kills did not
    reader.daemon.verify()


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go: tests/compat/clients.sh installs it")
def test_sent_again_by_go(reader):
    assert_sent_again(reader, ["go"])


@pytest.fixture
def java(reader):
    """With the stand-in for Jedis compiled."""
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", f"{reader.daemon.directory}/classes",
                    *glob.glob(f"{HERE}/clients/java/**/*.java", recursive=True)], check=True, timeout=patience(120))
    return reader


@NO_JAVA
def test_sent_again_by_java(java):
    assert_sent_again(java, ["java"])


@NO_JAVA
def test_spring(java):
    """Where its properties lead, and what its line sends; the JDK's serializer, which the page says not to take, makes another key."""
    ((_, properties), (_, bean), (_, hit), _) = java.recipe["Spring"]
    program = SPRING.replace("PROPERTIES", properties.replace("\n", "\\n")).replace("BEAN", bean).replace("HIT", hit)
    assert java.run("java", program) == "REJECT_COMMANDS"
    java.selects("Spring")
    with java.daemon.client() as client:
        assert "no counter is configured for key" in client.call("HINCRBY", b"\xac\xed\0\5t\0\x10product:49:views", "20260101", 1)
    java.daemon.verify()


def assert_ends(reader, code, said):
    """Within seconds, also when tallyd stands still."""
    reader.daemon.pause()
    began = time.monotonic()
    assert reader.run("php", code) == said
    assert time.monotonic() - began < patience(10)
    reader.daemon.resume()


def row_of(app):
    """Of the table of apps in the other page."""
    with open(os.path.join(os.path.dirname(PAGE), "README.md"), encoding="utf-8") as file:
        (row,) = re.findall(rf"^\| {app} .*", file.read(), re.M)
    return row


def test_laravel(reader):
    """The connection of the page drops prefix and database; without its options the hit would be refused."""
    ((_, connection), (_, hit), _) = reader.recipe["Laravel"]
    row = row_of("Laravel")
    assert f"`{connection.strip().rstrip(',')}`" in row and "`key: \"product:<product>:views\"`" in row  # both pages say the same
    assert reader.run("php", LARAVEL.replace("CONNECTION", connection) + hit) == ""
    reader.selects("Laravel")
    patient = LARAVEL.replace("CONNECTION", connection) + f"try {{ {hit} }} catch (\\RedisException $away) {{ echo 'away'; }}"
    assert_ends(reader, patient, "away")
    bare = re.sub(r", 'options' => \[.*?\]", "", connection)
    assert bare != connection
    assert reader.run("php", LARAVEL.replace("CONNECTION", bare) + "var_dump(" + hit.strip().rstrip(";") + ");") == "bool(false)\n"


def test_wordpress_row(reader):
    """The plugin of the other page, on which a tallyd that stands still costs two seconds and no page."""
    (code,) = re.findall(r"^\| WordPress \| [^`]*`(.*?)`", row_of("WordPress"))
    assert_ends(reader, "$post_id = 7; " + code, "")


def test_frameworks(reader):
    for title in FRAMEWORKS:
        reader.app(title)
        reader.selects(title)
    reader.daemon.verify()


def test_all_are_run(reader):
    """A recipe that is added is in one of the tests above, and every program of the page is of a language that they run."""
    names = ("Recipes", "Views", "Visitors", "The total", "Yesterday", AGAIN, "Laravel", *FRAMEWORKS, "Spring")
    assert [title for title in reader.recipe if not title.startswith(names)] == []
    assert {language for blocks in reader.recipe.values() for language, _ in blocks} == {*LANGUAGES, "yaml", "sql", "properties"}
