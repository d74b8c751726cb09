"""config/container, as far as it can be judged without an image: what the Containerfile names, and what the image would run."""
import json
import os
import re
import stat
import subprocess

import pytest
import yaml

from harness.daemon import TALLYD
from harness.wait import patience
from test_http import make_web

ROOT = os.path.join(os.path.dirname(__file__), "../..")
HERE = os.path.join(ROOT, "config/container")
# The image is a Debian 12. What its packages are called in Debian 13:
RENAMED = {"libgnutls30t64": "libgnutls30", "libhiredis1.1.0": "libhiredis0.14", "libmicrohttpd12t64": "libmicrohttpd12", "libssl3t64": "libssl3", "libuv1t64": "libuv1"}


def text(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def stages():
    """Of each stage its instructions, [(name, rest)]; what comes before the first is in stages()[0]."""
    made = [[]]
    joined = re.sub(r"^#.*\n", "", text("Containerfile"), flags=re.M).replace("\\\n", " ")
    for name, rest in re.findall(r"^([A-Z]+) (.*)$", joined, re.M):
        if name == "FROM":
            made.append([])
        made[-1].append((name, rest))
    return made


def of(stage, name):
    return [rest for this, rest in stage if this == name]


def test_containerfile():
    (_, build, image) = stages()
    for stage in (build, image):
        assert of(stage, "FROM")[0].split()[0] == "$DEBIAN"
        for rest in of(stage, "COPY"):
            words = rest.split()
            if words[0] != "--from=build":
                assert all(os.path.exists(os.path.join(ROOT, word)) for word in words[:-1]), rest
    assert of(image, "USER") == ["7370:7370"] and "--uid 7370" in of(image, "RUN")[0]
    assert "healthy.sh" in of(image, "HEALTHCHECK")[0] and of(image, "ENTRYPOINT") == ['["tallyd"]']


def test_image_has_the_libraries_that_tallyd_links():
    """Debian's packages of what the binary names, neither fewer nor more."""
    needed = re.findall(r"^ +NEEDED +(\S+)$", subprocess.run(["objdump", "-p", TALLYD], capture_output=True, text=True,
                                                            timeout=patience(60), check=True).stdout, re.M)
    found = dict(re.findall(r"^\t(\S+) => (/\S+)", subprocess.run(["ldd", TALLYD], capture_output=True, text=True, timeout=patience(60),
                                                                check=True).stdout, re.M))
    packages = {package_of(found[name]) for name in needed if not re.match("lib[a-z]*san", name)} - {"libgcc-s1"}
    listed = set(re.findall(r"\blib[a-z0-9.-]+", re.search(r"install (.*?)&&", of(stages()[2], "RUN")[0])[1]))
    assert len(packages) > 5 and listed == {RENAMED.get(name, name) for name in packages}


def package_of(path):
    """dpkg knows a file by the path that its package has, with /usr or without."""
    for place in (path, os.path.realpath(path), os.path.realpath(path).removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True, timeout=patience(60), check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise AssertionError(f"no package has {path}")


def test_compose():
    services = yaml.safe_load(text("compose.yaml"))["services"]
    conf = yaml.safe_load(text("tallyd.yaml"))
    assert set(services) == {"valkey", "mariadb", "migrate", "tallyd"}
    for url in (conf["redis"], conf["mysql"]):
        assert re.search(r"(?://|@)([a-z]+):", url)[1] in services
    assert conf["mysql"].endswith("/" + services["mariadb"]["environment"]["MARIADB_DATABASE"])
    command = services["valkey"]["command"]
    assert dict(zip(command[1::2], command[2::2])) == {
        "--appendonly": "yes", "--appendfsync": "everysec", "--maxmemory-policy": "noeviction", "--save": ""}
    built = services["tallyd"]["build"]
    assert os.path.exists(os.path.join(HERE, built["context"], built["dockerfile"]))
    assert all(port.startswith("127.0.0.1:") for port in services["tallyd"]["ports"])


def test_configuration(tmp_path):
    """tallyd takes it: only nothing runs under the names, here on a port of this machine where nothing can."""
    (tmp_path / "http.tokens").write_text("me 0123456789abcdef0123\n", encoding="utf-8")
    os.chmod(tmp_path / "http.tokens", stat.S_IRUSR | stat.S_IWUSR)
    written = text("tallyd.yaml")
    for there, here in (("/etc/tallyd/http.tokens", "http.tokens"), ("redis://valkey:6379/0", "redis://127.0.0.1:1/0"),
                        ("mariadb:3306", "127.0.0.1:1")):
        assert there in written
        written = written.replace(there, here)
    (tmp_path / "tallyd.yaml").write_text(written, encoding="utf-8")
    done = subprocess.run([TALLYD, "check", "-c", tmp_path / "tallyd.yaml"], capture_output=True, text=True, timeout=patience(60),
                          check=False)
    assert done.returncode == 69 and "good configuration with 2 counters" in done.stdout, done.stderr


@pytest.mark.parametrize("there", [True, False])
def test_health_check(there, make_daemon, redis, free_port):
    """As HEALTHCHECK runs it, with the port of this tallyd; and where nothing listens."""
    if there:
        make_web(make_daemon, redis, start_http=f"tcp://127.0.0.1:{free_port}")
    words = json.loads(re.search(r"CMD (\[.*\])", of(stages()[2], "HEALTHCHECK")[0])[1])
    done = subprocess.run([words[0], os.path.join(HERE, os.path.basename(words[1])), str(free_port)], capture_output=True,
                          timeout=patience(60), check=False)
    assert (done.returncode == 0) == there, done
