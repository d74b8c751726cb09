"""config/kubernetes, without a cluster: its parts name each other, its configuration is a good one, and its probes are answered."""
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from harness.daemon import TALLYD
from harness.wait import patience, wait_until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
FILE = os.path.join(ROOT, "config/kubernetes/tallyd.yaml")
REQUIRED = {"Deployment": ("selector", "template"), "Service": ("selector", "ports"), "PodDisruptionBudget": ("selector", "minAvailable")}
VERSIONS = {"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}


@pytest.fixture(scope="module")
def kinds():
    with open(FILE, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found


@pytest.fixture(scope="module")
def pod(kinds):
    return kinds["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    (only,) = pod["containers"]
    return only


def page():
    """The section of config/README.md."""
    with open(os.path.join(ROOT, "config/README.md"), encoding="utf-8") as file:
        return re.search(r"^## Kubernetes\n(.*?)^## ", file.read(), re.M | re.S)[1]


def written_secret():
    """The keys of the Secret that the page has made."""
    command = re.search(r"^ +(kubectl create secret generic tallyd (?:.*\\\n)*.*)$", page(), re.M)[1]
    return {word.partition("=")[2].partition("=")[0] for word in shlex.split(command.replace("\\\n", ""), comments=True)
            if word.startswith(("--from-literal=", "--from-file="))}


def config(kinds):
    return kinds["ConfigMap"]["data"]["tallyd.yaml"]


def test_documents(kinds, pod, container):
    assert {kind: document["apiVersion"] for kind, document in kinds.items()} == VERSIONS
    labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind, document in kinds.items():
        assert document["metadata"]["name"] == "tallyd"
        for name in REQUIRED.get(kind, ()):
            assert document["spec"][name], (kind, name)
    for selector in (kinds["Deployment"]["spec"]["selector"]["matchLabels"], kinds["Service"]["spec"]["selector"],
                     kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert kinds["Deployment"]["spec"]["replicas"] == 2 > kinds["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert len({each["image"] for each in [container, *pod["initContainers"]]}) == 1
    for each in [container, *pod["initContainers"]]:
        confined = each["securityContext"]
        assert confined["readOnlyRootFilesystem"] and not confined["allowPrivilegeEscalation"] and confined["capabilities"] == {"drop": ["ALL"]}
    with open(os.path.join(ROOT, "config/container/Containerfile"), encoding="utf-8") as file:
        assert f"--uid {pod['securityContext']['runAsUser']}" in file.read()


def test_what_is_named_is_there(kinds, pod, container):
    """Volumes, ConfigMap, the Secret and its keys, ports, and the files that the configuration names."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["config"]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"]
    secret = written_secret()
    assert volumes["secret"]["secret"]["secretName"] == "tallyd" and {item["key"] for item in volumes["secret"]["secret"]["items"]} <= secret
    for each in [container, *pod["initContainers"]]:
        assert {mount["name"] for mount in each["volumeMounts"]} <= set(volumes)
        for variable in each.get("env", ()):
            of = variable["valueFrom"].get("secretKeyRef")
            assert of is None or of["name"] == "tallyd" and (of["key"] in secret or of.get("optional")), variable
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    written = yaml.safe_load(config(kinds))
    for path in (written["http"]["tokens"], written["listen"]["control"].removeprefix("unix://")):
        assert os.path.dirname(path) in mounts
    # the kubelet's files are root's, so the pod's user reads them as anybody, and makes one of its own that nobody else may read
    assert volumes["secret"]["secret"]["defaultMode"] & 0o004
    install, *how, _, made = pod["initContainers"][0]["command"]
    assert (install, how, made) == ("install", ["-m", "600"], written["http"]["tokens"])
    read, = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config")
    assert f"{read}/tallyd.yaml" in told("run", "--help")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {name: int(written["listen"][name].rpartition(":")[2]) for name in ports} == ports
    assert {port["name"]: (port["port"], port["targetPort"]) for port in kinds["Service"]["spec"]["ports"]} == {
        name: (number, name) for name, number in ports.items()}


def test_time_to_stop(kinds, pod, container):
    """What a drain takes at most fits, with the sleep before it."""
    asleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    stop = int(re.fullmatch(r"(\d+)s", yaml.safe_load(config(kinds))["stop_timeout"])[1])
    assert pod["terminationGracePeriodSeconds"] >= asleep + stop + 10


def told(*words):
    return subprocess.run([TALLYD, *words], capture_output=True, text=True, timeout=patience(60), check=True).stdout


def test_resources(container):
    """Quantities as Kubernetes writes them; the limit leaves room beside what tallyd's own limit counts."""
    bytes_of = {"Mi": 1 << 20, "Gi": 1 << 30}
    resources = container["resources"]
    assert re.fullmatch(r"\d+m?", resources["requests"]["cpu"])
    memory = {name: int(size[:-2]) * bytes_of[size[-2:]] for name, size in
              (("requests", resources["requests"]["memory"]), ("limits", resources["limits"]["memory"]))}
    own = int(re.search(r"limits.memory = (\d+)MiB", told("help", "limits.memory"))[1]) << 20
    assert memory["requests"] <= memory["limits"] and memory["limits"] >= 2 * own, (memory, own)


def test_configuration(kinds, pod, container, tmp_path):
    """tallyd takes it, with the environment of the pod; only nothing runs under its names, here on a port where nothing can."""
    written = config(kinds)
    for there, here in (("/run/tallyd", str(tmp_path)), ("redis://redis:6379/0", "redis://127.0.0.1:1/0"), ("mysql:3306", "127.0.0.1:1")):
        assert there in written
        written = written.replace(there, here)
    (tmp_path / "http.tokens").write_text("me 0123456789abcdef0123\n", encoding="utf-8")
    os.chmod(tmp_path / "http.tokens", 0o600)
    (tmp_path / "tallyd.yaml").write_text(written, encoding="utf-8")
    named = {variable["name"]: "tallyd-6d4cf56db6-x7k2p" for variable in container["env"]}
    done = subprocess.run([TALLYD, "check", "-c", tmp_path / "tallyd.yaml"], capture_output=True, text=True, timeout=patience(60),
                          check=False, env={**os.environ, **named})
    assert done.returncode == 69 and "good configuration with 2 counters" in done.stdout, done.stdout + done.stderr
    for each in pod["initContainers"][1:]:
        tried = subprocess.run([TALLYD, *each["args"], "-c", tmp_path / "tallyd.yaml"], capture_output=True, text=True, timeout=patience(60),
                               check=False, env={**os.environ, **named})
        assert tried.returncode == 69, (each["name"], tried.stderr)  # as check: only the servers are missing
    assert set(named) == {"TALLYD_INSTANCE", "TALLYD_MYSQL_PASSWORD", "TALLYD_REDIS_PASSWORD"}


def test_probes(container, make_daemon, redis, free_port):
    """As the kubelet asks, without a token. A tallyd whose Redis is away is not taken out of the Service: it says what is wrong."""
    daemon = make_daemon(redis, start=False)
    daemon.config["listen"]["http"] = f"tcp://127.0.0.1:{free_port}"
    daemon.config["http"] = {"local": "token"}
    daemon.write_config()
    daemon.migrate().start()
    paths = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}

    def asked(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{free_port}{path}", timeout=patience(10)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    wait_until(lambda: {asked(path) for path in ["/readyz", *paths]} == {200}, 60, "all is well")
    redis.kill9()
    wait_until(lambda: asked("/readyz") == 503, 60, "it is not ready")
    assert {asked(path) for path in paths} == {200}
