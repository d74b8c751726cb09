"""What config/ has for operators: the unit, users and directories, alert rules, the dashboard."""
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile

import pytest

from harness.daemon import Daemon
from harness.mariadb import MariaDB
from harness.redis_server import RedisServer
from harness.wait import patience, wait_until
from harness.web import Web

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
CONFIG = os.path.join(SOURCE, "config")
UNIT = os.path.join(CONFIG, "systemd/tallyd.service")
RULES = os.path.join(CONFIG, "prometheus/tallyd.rules.yml")
DASHBOARD = os.path.join(CONFIG, "grafana/tallyd.json")
TALLYD = os.environ["TALLYD"]
EXPOSURE_MOST = 2.0


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def run(*words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience(60), check=False,
                          **options)


# --- systemd ---

def test_unit_is_hardened():
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
    exposure = re.search(r"Overall exposure level for tallyd.service: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) <= EXPOSURE_MOST, done.stdout


def test_unit_is_understood(workdir):
    """No setting that systemd ignores or does not know; its programs are there."""
    unit = os.path.join(workdir, "tallyd.service")
    with open(unit, "w", encoding="utf-8") as out:
        out.write(read("config/systemd/tallyd.service").replace("/usr/bin/tallyd", os.path.abspath(TALLYD)))
    done = run("systemd-analyze", "verify", "--man=no", unit)
    about = [line for line in (done.stdout + done.stderr).splitlines() if "tallyd" in line]
    assert done.returncode == 0 and not about, done.stdout + done.stderr


def test_unit_and_service_agree():
    """What the unit counts on: the service's exit statuses and its credentials' names."""
    unit = dict(re.findall(r"^(\w+)=(.*)$", read("config/systemd/tallyd.service"), re.M))
    assert unit["RestartPreventExitStatus"].split() == ["64", "78"]
    statuses = run(TALLYD, "--help").stdout
    assert re.search(r"^ +64 ", statuses, re.M) and re.search(r"^ +78 ", statuses, re.M)
    names = re.findall(r"^LoadCredential=([\w.]+):/etc/tallyd/\1$", read("config/systemd/tallyd.service"), re.M)
    assert set(names) == set(re.findall(r'"(\w+\.password)",\s+c->', read("src/conf/parse.c")))
    assert re.search(rf'CONF_PATH_DEFAULT "{re.escape(unit["ConditionPathExists"])}"', read("src/admin/verbs.h"))


def test_unit_of_several(workdir):
    """tallyd@.service is tallyd.service, but for its name and a directory of its own; systemd understands it."""
    one, each = ([line for line in read("config/systemd", name).splitlines() if not line.startswith("#")]
                 for name in ("tallyd.service", "tallyd@.service"))
    assert [line for line in each if line not in one] == [
        "Description=tallyd %i, counts hits in Redis and merges them into MySQL", "Environment=TALLYD_INSTANCE=%i", "RuntimeDirectory=tallyd-%i"]
    assert len([line for line in one if line not in each]) == 2 and len(each) == len(one) + 1
    unit = os.path.join(workdir, "tallyd@1.service")
    with open(unit, "w", encoding="utf-8") as out:
        out.write(read("config/systemd/tallyd@.service").replace("/usr/bin/tallyd", os.path.abspath(TALLYD)))
    done = run("systemd-analyze", "verify", "--man=no", unit)
    about = [line for line in (done.stdout + done.stderr).splitlines() if "tallyd" in line]
    assert done.returncode == 0 and not about, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes users")
def test_users_and_directories(workdir):
    """In a root directory of their own: the user has no shell and no password, /etc/tallyd and what is in it the rights."""
    for name in ("etc/tallyd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        os.makedirs(os.path.join(workdir, name), 0o777)
    for kind in ("sysusers", "tmpfiles"):
        shutil.copy(os.path.join(CONFIG, f"systemd/tallyd.{kind}"), os.path.join(workdir, f"usr/lib/{kind}.d/tallyd.conf"))
    for name in ("tallyd.yaml", "mysql.password", "http.tokens"):
        with open(os.path.join(workdir, "etc/tallyd", name), "w", encoding="utf-8"):
            os.chmod(os.path.join(workdir, "etc/tallyd", name), 0o666)
    for kind in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
        done = run(*kind, f"--root={workdir}", "tallyd.conf")
        assert done.returncode == 0, done.stderr
    with open(os.path.join(workdir, "etc/passwd"), encoding="utf-8") as file:
        name, _, uid, gid, _, home, shell = file.read().splitlines()[0].split(":")
    assert (name, home, shell) == ("tallyd", "/nonexistent", "/usr/sbin/nologin")
    with open(os.path.join(workdir, "etc/shadow"), encoding="utf-8") as file:
        assert file.read().startswith("tallyd:!")
    rights = {"tallyd": (0o750, 0, int(gid)), "tallyd/tallyd.yaml": (0o640, 0, int(gid)),
              "tallyd/mysql.password": (0o600, 0, 0), "tallyd/http.tokens": (0o600, int(uid), int(gid))}
    for name, wanted in rights.items():
        found = os.stat(os.path.join(workdir, "etc", name))
        assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == wanted, name
    assert 0 < int(uid) < 1000


def test_package_scripts():
    """Shell that a shell reads, executable as dpkg wants them."""
    for name in ("postinst", "prerm", "postrm"):
        script = os.path.join(CONFIG, "package", name)
        assert os.access(script, os.X_OK)
        assert run("sh", "-n", script).returncode == 0


# --- Prometheus and Grafana ---

HISTOGRAMS = ("_bucket", "_count", "_sum")
WORDS = {"and", "or", "unless", "bool", "by", "on", "without", "ignoring", "group_left", "group_right", "offset", "inf"}
OF_PROMETHEUS = {"up"}  # its own, of each target
OF_SENTINELS = {"tallyd_redis_sentinels", "tallyd_redis_sentinels_up"}  # only with sentinels: test_sentinel.py reads them
OF_LANES = {"tallyd_lane_up", "tallyd_lane_held", "tallyd_lane_oldest_pending_seconds"}  # with several: test_cluster.py does


@pytest.fixture(scope="module")
def exported(template):
    """The names of the samples that a running tallyd's /metrics has, once it has looked at Redis and MySQL."""
    with tempfile.TemporaryDirectory(prefix="tly-") as made:
        directories = [os.path.join(made, name) for name in ("redis", "sql", "tallyd")]
        for directory in directories:
            os.mkdir(directory)
        redis = RedisServer(directories[0], appendfsync="always").start()
        mysql = MariaDB(directories[1], template).start()
        mysql.fresh_database()
        daemon = Daemon(directories[2], redis, mysql)
        web = Web(os.path.join(directories[2], "http.sock"))
        daemon.config["listen"]["http"] = f"unix://{directories[2]}/http.sock"
        daemon.write_config()
        try:
            daemon.migrate().start()
            wait_until(lambda: {"tallyd_books_balanced", "tallyd_rejects"} <= set(web.metrics()), 30, "the books are seen")
            yield {name.split("{")[0] for name in web.metrics()}
        finally:
            for process in (daemon, redis, mysql):
                process.close()


def named(query):
    """The metrics that a PromQL expression names: its words that are no function, keyword, label or duration."""
    query = re.sub(r'"[^"]*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", query)
    query = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", "", query)
    query = re.sub(r"\boffset\s+\w+", "", query)
    return {word for word in re.findall(r"[A-Za-z_:][\w:]*(?!\w|\s*\()", query) if word not in WORDS}


def alerts():
    return re.findall(r"^ +- alert: (\w+)$", read("config/prometheus/tallyd.rules.yml"), re.M)


def test_names_are_found_in_queries():
    assert named('histogram_quantile(0.9, sum by (instance, le) (rate(a_bucket{x="b_c"}[5m]))) > 5') == {"a_bucket"}
    assert named("rate(a[15m]) == 0 and rate(b_total[15m] offset 1d) > 0") == {"a", "b_total"}
    assert named('c > 900 and on (instance) d{e=~"$f"} == 1') == {"c", "d"}


def test_rules_name_metrics_that_exist(exported):
    queries = re.findall(r"^ +expr: (.*)$", read("config/prometheus/tallyd.rules.yml"), re.M)
    assert len(queries) == len(alerts()) > 13
    used = set().union(*map(named, queries))
    assert used and used <= exported | OF_PROMETHEUS | OF_SENTINELS | OF_LANES, used - exported


def expressions(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr":
                yield value
            yield from expressions(value)
    elif isinstance(node, list):
        for item in node:
            yield from expressions(item)


def test_dashboard_names_metrics_that_exist(exported):
    dashboard = json.loads(read("config/grafana/tallyd.json"))
    queries = list(expressions(dashboard))
    assert len(queries) > 25
    used = set().union(*map(named, queries))
    for variable in dashboard["templating"]["list"]:
        used |= set(re.findall(r"label_values\((\w+),", str(variable["query"])))
    assert used <= exported | OF_SENTINELS | OF_LANES, used - exported
    shown = {re.sub(f"({'|'.join(HISTOGRAMS)})$", "", name) for name in used}
    missing = {re.sub(f"({'|'.join(HISTOGRAMS)})$", "", name) for name in exported} - shown
    assert missing == {"tallyd_batches_done_total"}, "a metric that no panel shows"


def test_dashboard_is_whole():
    """Ids differ, panels do not overlap, each has a title, and its queries parse once their variables are put in."""
    panels = json.loads(read("config/grafana/tallyd.json"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert panel["title"] and not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_queries_parse(workdir):
    """promtool has no parser for a dashboard, so its queries are given to it as rules."""
    rules = [{"record": "tallyd:query", "labels": {"n": str(n)}, "expr": query.replace("$__rate_interval", "5m")}
             for n, query in enumerate(expressions(json.loads(read("config/grafana/tallyd.json"))))]
    path = os.path.join(workdir, "queries.yml")
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, out)
    done = run("promtool", "check", "rules", "--lint=none", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules():
    done = run("promtool", "check", "rules", RULES)
    assert done.returncode == 0 and f"{len(alerts())} rules" in done.stdout, done.stdout + done.stderr
    done = run("promtool", "test", "rules", os.path.basename(RULES).replace(".yml", ".test.yml"), cwd=os.path.dirname(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_scrape_job(workdir):
    """Of the page, with its lines for TLS and a token."""
    job = re.search(r"^    scrape_configs:\n(?:      .*\n)+", read("config/README.md"), re.M)[0].replace("# scheme", "scheme").replace("# auth", "auth")
    with open(os.path.join(workdir, "prometheus.yml"), "w", encoding="utf-8") as out:
        out.write(job)
    done = run("promtool", "check", "config", "--syntax-only", out.name)
    assert done.returncode == 0 and "scheme: https" in job and "credentials_file: " in job, done.stdout + done.stderr


def test_each_alert_is_tested():
    """Once with an alert expected, and once quiet."""
    alerts = set(re.findall(r"alert: (\w+)", read("config/prometheus/tallyd.rules.yml")))
    tests = read("config/prometheus/tallyd.rules.test.yml")
    assert set(re.findall(r"alertname: (\w+)\n +exp_alerts:", tests)) == alerts
    assert set(re.findall(r"alertname: (\w+) \}", tests)) >= alerts
