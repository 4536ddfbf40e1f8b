"""The other ways in, conda and compose, agree with the lock and open nothing to the network."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kitlib import experiments
from kitlib.lab import container, jars, java, jupyter
from kitlib.lab.brokers import node, ports
from kitlib.monitor.delivery import judge
from tests.conftest import REPOSITORY, wait_for

COMPOSE = REPOSITORY / "docker-compose.yml"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return compose["services"]


@pytest.fixture(scope="module")
def dockerfile(services: dict[str, Any]) -> str:
    return interpolated(services["jupyter"]["build"]["dockerfile_inline"])


@pytest.fixture(scope="module")
def conda() -> dict[str, Any]:
    return yaml.safe_load((REPOSITORY / "environment.yml").read_text(encoding="utf-8"))


def options(command: list[str]) -> dict[str, str]:
    """The options of a command line, written as --name=value or as --name value."""
    found = dict(word.split("=", 1) for word in command if word.startswith("--") and "=" in word)
    return found | {a: b for a, b in itertools.pairwise(command) if a.startswith("--") and "=" not in a}


def interpolated(text: str, **environment: str) -> str:
    """A value of docker-compose.yml as Compose reads it, for the two forms that ours has: ${NAME-default} and ${NAME:-default}."""

    def value(found: re.Match[str]) -> str:
        name, empty_too, default = found.groups()
        told = environment.get(name)
        return default if told is None or (empty_too and not told) else told

    return re.sub(r"\$\{(\w+)(:?)-([^}]*)\}", value, text).replace("$$", "$")


def test_compose_follows_the_compose_specification() -> None:
    """docker-compose.yml is valid by the compose specification's own schema."""
    tool = Path(sys.executable).with_name("check-jsonschema")
    answer = subprocess.run(
        [tool, "--builtin-schema", "vendor.compose-spec", COMPOSE], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout


def test_compose_opens_nothing_to_the_network_and_has_no_power_over_the_host(services: dict[str, Any]) -> None:
    """Each port is bound to 127.0.0.1, the same inside and outside; no container is privileged, shares namespaces, sees Docker's socket."""
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published and all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    for name, service in services.items():
        assert not {"privileged", "network_mode", "pid", "ipc", "cap_add", "devices"} & set(service), name
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"], name
        assert not any("docker.sock" in str(volume) for volume in service.get("volumes", [])), name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert all(need["condition"] == "service_healthy" for need in service.get("depends_on", {}).values()), name


def test_compose_images_have_the_versions_of_the_lock(services: dict[str, Any], dockerfile: str) -> None:
    """Kafka's image has the version of the jars; ours, shared by all others, is made from the lock, for a user, of files that are there."""
    assert services["kafka"]["image"] == f"apache/kafka:{jars.KAFKA_VERSION}"
    own = {service["image"] for name, service in services.items() if name != "kafka"}
    assert own == {f"delivery-lab:{PROJECT['project']['version']}"}
    [base] = re.findall(r"^FROM python:(\d+\.\d+)-", dockerfile, re.MULTILINE)
    assert f">={base}" == PROJECT["project"]["requires-python"]
    assert "pip install --no-cache-dir --no-deps --require-hashes --no-build-isolation -r requirements.lock" in dockerfile
    [major] = re.findall(r"openjdk-(\d+)-jre", dockerfile)
    assert java.OLDEST_JAVA <= int(major) <= java.NEWEST_JAVA
    assert re.search(r"^USER learner$", dockerfile, re.MULTILINE)
    [command] = re.findall(r"sed -n '[^']*' requirements\.lock", dockerfile)
    cut = subprocess.run(command, shell=True, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert [cut] == re.findall(r"^setuptools==.*\n(?:    .*\n)*", LOCK, re.MULTILINE)
    ignored = (REPOSITORY / ".dockerignore").read_text().split()
    for name in [word for line in re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE) for word in line.split()]:
        assert (REPOSITORY / name).exists() and name not in ignored, name


def test_compose_addresses_and_ports_agree(services: dict[str, Any]) -> None:
    """What one service is told of another is what the other listens on."""
    kafka = services["kafka"]["environment"]
    told = {name: interpolated(value, **cluster_env()) for name, value in services["jupyter"]["environment"].items()}
    advertised = dict(door.split("://") for door in kafka["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listening = dict(door.split("://") for door in kafka["KAFKA_LISTENERS"].split(","))
    assert told["KIT_KAFKA_BOOTSTRAP"] == advertised["INSIDE"] == f"kafka{listening['INSIDE']}"
    assert advertised["OUTSIDE"] == f"127.0.0.1{listening['OUTSIDE']}"
    assert services["kafka"]["ports"] == [f"127.0.0.1{listening['OUTSIDE']}{listening['OUTSIDE']}"]
    assert kafka["KAFKA_CONTROLLER_QUORUM_VOTERS"].split("@")[1] == listening["CONTROLLER"]
    master = options(services["spark-master"]["command"])
    address = f"spark://{master['--host']}:{master['--port']}"
    assert told["KIT_SPARK_MASTER"] == address == services["spark-worker"]["command"][-1]
    assert services["spark-master"]["ports"] == [f"127.0.0.1:{master['--webui-port']}:{master['--webui-port']}"]


def test_compose_broker_has_the_settings_of_the_kits_own(services: dict[str, Any]) -> None:
    """Compose's broker differs from one that the kit starts in its addresses, its folder and its heap alone."""
    own = node.settings(1, 1, 1, 2, True, Path("/data"))
    told = services["kafka"]["environment"]
    of_this_place = {"KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_LOG_DIRS", "KAFKA_HEAP_OPTS"}
    of_this_place |= {name for name in told if "LISTENER" in name or "CONTROLLER" in name}
    wanted = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in own.items()}
    assert {name: value for name, value in told.items() if name not in of_this_place} == {
        name: value for name, value in wanted.items() if name not in of_this_place
    }


def cluster_env() -> dict[str, str]:
    lines = (REPOSITORY / "cluster.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_compose_is_one_container_unless_the_cluster_is_asked_for(services: dict[str, Any]) -> None:
    """Without cluster.env Jupyter is alone and told of no cluster, so that the kit starts its own; with it, all services run."""
    assert [name for name, service in services.items() if "profiles" not in service] == ["jupyter"]
    assert "depends_on" not in services["jupyter"], "a service of a profile that is off cannot be waited for"
    assert {interpolated(value) for value in services["jupyter"]["environment"].values()} == {""}
    profile = cluster_env()["COMPOSE_PROFILES"]
    assert all(service.get("profiles", [profile]) == [profile] for service in services.values())
    for page in (COMPOSE, REPOSITORY / "docs" / "ways_in.md"):
        assert "docker compose --env-file cluster.env up --build --wait" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.kafka
def test_compose_a_broker_with_its_variables_serves_the_kit(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kafka.Kafka` starts with the settings that compose's variables stand for, and a group's run on it has the model's verdict."""
    told = services["kafka"]["environment"]
    free = ports.draw(3)
    doors = dict(zip(("19092", "9092", "9093"), free, strict=True))
    settings = {name[6:].lower().replace("_", "."): value for name, value in told.items() if name != "KAFKA_HEAP_OPTS"}
    for name, value in settings.items():
        for number, here in doors.items():
            value = re.sub(rf"(//[\w.]*|127\.0\.0\.1):{number}\b", f"\\1:{here}", value)
        settings[name] = value.replace("//:", "//127.0.0.1:").replace("//kafka:", "//127.0.0.1:")
    settings["log.dirs"] = str(tmp_path / "data")
    file = tmp_path / "server.properties"
    file.write_text(node.properties_text(settings), encoding="ascii")
    class_path = os.pathsep.join(map(str, jars.ensure_jars("kafka")))
    program = [str(java.find_java().executable), told["KAFKA_HEAP_OPTS"], "-cp", class_path]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*program, "kafka.tools.StorageTool", "format", "-t", node.new_cluster_id(), "-c", file], check=True, **quiet)
    broker = subprocess.Popen([*program, "kafka.Kafka", file], **quiet)
    try:
        assert wait_for(lambda: ports.answers(doors["19092"], 1.0), 60)
        monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", f"127.0.0.1:{doors['19092']}")
        assert judge(experiments.run("auto_commit", backend="kafka")).counts == judge(experiments.run("auto_commit")).counts
    finally:
        broker.kill()
        broker.wait()


def test_compose_the_image_is_built_for_the_user_who_starts_it(services: dict[str, Any], dockerfile: str) -> None:
    """The user of the image has the number that KIT_UID says, a name, a home and the workspace; no service runs as another."""
    arguments = services["jupyter"]["build"]["args"]
    assert interpolated(arguments["KIT_UID"]) == interpolated(arguments["KIT_GID"]) == "1000"
    assert interpolated(arguments["KIT_UID"], KIT_UID="501") == "501"
    [made] = re.findall(r"^ARG KIT_UID KIT_GID\nRUN ((?:.*\\\n)*.*)\n(?=ENV .*HOME=/home/learner)", dockerfile, re.MULTILINE)
    assert "--uid $KIT_UID --gid learner --create-home learner" in made
    assert "--owner=learner --group=learner /workspace" in made
    assert not any("user" in service for service in services.values())


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A project of its own in which the container's first program is run, and what that then becomes: its command and environment."""
    became: dict[str, Any] = {}
    shutil.copytree(REPOSITORY / "notebooks", tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execvpe", lambda _file, command, environment: became.update(command=command, environment=environment))
    return became


def test_compose_jupyter_keeps_its_token_and_its_usual_port(
    services: dict[str, Any], become: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter in a container has the port of the kit's own, a token, encrypted kernels, no dialogs, and opens the learner's copy."""
    assert services["jupyter"]["command"] == ["python", "-m", container.__name__]
    assert {"./notebooks:/lab/notebooks", "./work:/lab/work"} <= set(services["jupyter"]["volumes"])
    assert services["jupyter"]["ports"] == [f"127.0.0.1:{jupyter.USUAL_PORT}:{jupyter.USUAL_PORT}"]
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", "kafka:19092")
    container.main()
    given = options(become["command"])
    assert (given["--ServerApp.ip"], given["--ServerApp.port"]) == ("0.0.0.0", str(jupyter.USUAL_PORT))
    assert (given["--ServerApp.root_dir"], given["--KernelManager.transport_encryption"]) == (str(tmp_path), "auto")
    assert given["--LabApp.check_for_updates_class"] == "jupyterlab.NeverCheckForUpdate"
    assert (tmp_path / given["--LabApp.default_url"].removeprefix("/lab/tree/")).samefile(tmp_path / "work" / "00_start_here.ipynb")
    assert not any("token" in word.lower() or "password" in word.lower() for word in become["command"])
    assert become["environment"]["KIT_KAFKA_BOOTSTRAP"] == "kafka:19092"
    overrides = Path(become["environment"]["JUPYTER_CONFIG_DIR"], "labconfig", "default_setting_overrides.json")
    assert '"checkForUpdates": false' in overrides.read_text()


def test_compose_jupyter_is_not_started_without_the_learners_copies(
    become: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the copies cannot be made, the container ends with the sentence that says why."""
    (tmp_path / "work").touch()
    assert container.main() == 74
    assert "work" in capsys.readouterr().err and not become


def test_the_other_ways_in_agree_with_the_project(conda: dict[str, Any]) -> None:
    """conda brings Python, a Java and make, and all else from the lock; a codespace has a new enough Python; CITATION.cff this release."""
    plain = dict(item.split("=", 1) for item in conda["dependencies"] if isinstance(item, str) and "=" in item)
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert (conda["name"], plain["python"], int(plain["openjdk"])) == (PROJECT["project"]["name"], python, java.ADVISED_JAVA)
    assert "make" in conda["dependencies"]
    assert [item["pip"] for item in conda["dependencies"] if isinstance(item, dict)] == [["-r requirements.lock", "-c requirements.lock"]]
    container = json.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["image"].startswith(f"python:{python}-")
    assert (container["postCreateCommand"], container["forwardPorts"]) == ("make setup", [jupyter.USUAL_PORT])
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"]) == (PROJECT["project"]["version"], PROJECT["project"]["license"])


def test_ci_run_installs_a_browser_and_runs_make_test() -> None:
    """.ci/run is an executable shell script without errors of syntax that ends in make test."""
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert script.read_text().rstrip().endswith("exec make test")


def test_the_workflow_publishes_what_make_builds_with_least_rights() -> None:
    """It builds by `make site`, publishes that folder, names a version of each action, and only the last job may write."""
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "page.yml").read_text(encoding="utf-8"))
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert "make site" in [step.get("run") for step in build["steps"]]
    folders = [step["with"]["path"] for step in build["steps"] if "upload-pages-artifact" in step.get("uses", "")]
    script = (REPOSITORY / "scripts" / "make_site.py").read_text(encoding="utf-8")
    assert folders == ["build/site"] and 'BUILD / "site"' in script
    uses = [step["uses"] for job in (build, publish) for step in job["steps"] if "uses" in step]
    assert uses and all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in uses)
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in build
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
