"""Only the locked jars are ever used (the supply part of row 44 of the faults), tried against a real HTTP repository."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jgo.constants import MAVEN_CENTRAL_URL
from jupyter_builder.constants import JPBLD_NPM_URL

from kitlib.errors import SupplyError
from kitlib.lab import jars
from tests.conftest import wait_for

CUT = "commons-pool2-2.13.1.jar"


class Repository(http.server.ThreadingHTTPServer):
    """A Maven repository on loopback that serves the real jars, and misbehaves when told to."""

    def __init__(self, files: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.asked: Counter[str] = Counter()  # jars asked for, by file name
        self.faults: dict[str, list[str]] = {}  # file name -> what to do wrong at each request
        self.release = threading.Event()  # lets stalled answers go on

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path not in self.server.files:
            self.send_error(404)
            return
        self.server.asked[name] += 1
        content = self.server.files[self.path].read_bytes()
        faults = self.server.faults.get(name) or ["none"]
        fault = faults.pop(0)
        if fault == "other":
            content = b"<html>please log in</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault in ("cut", "stall"):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.server.release.wait(30)
            self.close_connection = True
        else:
            self.wfile.write(content)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # a client that does not trust us hangs up
            super().handle()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def real_jars(kit_home: Path) -> dict[str, Path]:
    """Where the real, checked jars of Spark's connector are, by their path in a Maven repository."""
    paths = {}
    for jar, path in zip(jars.LOCK["spark"], jars.ensure_jars("spark"), strict=True):
        group, artifact, version = jar.coordinate.split(":")
        paths[f"/{group.replace('.', '/')}/{artifact}/{version}/{jar.file}"] = path
    return paths


@pytest.fixture
def repository(real_jars: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository, and an empty workspace that fetches from it alone."""
    server = Repository(real_jars)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KIT_MAVEN_REPOSITORY", server.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    for name in ("KIT_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def filled(repository: Repository) -> Repository:
    """A repository whose jars are all in the workspace already."""
    jars.ensure_jars("spark", progress=lambda line: None)
    repository.asked.clear()
    return repository


def test_address_is_where_everybody_fetches_it_or_a_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jar is in a Maven repository, a package in npm's registry; a variable names another of either kind."""
    both = [jars.Jar("org.a:b:1", "b-1.jar", "", 0), jars.Jar("pyodide@2", "pyodide-2.tgz", "", 0)]
    monkeypatch.delenv("KIT_MAVEN_REPOSITORY", raising=False)
    assert [jar.address for jar in both] == [f"{MAVEN_CENTRAL_URL}/org/a/b/1/b-1.jar", f"{JPBLD_NPM_URL}/pyodide/-/pyodide-2.tgz"]
    monkeypatch.setenv("KIT_MAVEN_REPOSITORY", "http://m/")
    monkeypatch.setenv("KIT_NPM_REGISTRY", "http://n")
    assert [jar.address for jar in both] == ["http://m/org/a/b/1/b-1.jar", "http://n/pyodide/-/pyodide-2.tgz"]


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {".lock"}


def test_lock_kafka_set_has_one_logging_binding_of_the_api_version() -> None:
    """The broker's jars hold SLF4J's API and one binding of the same version, so that a broker never fails silently."""
    versions = {jar.file.rsplit("-", 1)[0]: jar.file.rsplit("-", 1)[1] for jar in jars.LOCK["kafka"] if "slf4j" in jar.file}
    assert set(versions) == {"slf4j-api", "slf4j-simple"}
    assert versions["slf4j-api"] == versions["slf4j-simple"]


def test_lock_kafka_clients_of_spark_is_a_safe_one() -> None:
    """Spark's kafka-clients is 3.9.2 or later in 3.9: older ones can put a record into the wrong topic."""
    major, minor, patch = map(int, jars.CONNECTOR_KAFKA_VERSION.split("."))
    assert (major, minor) == (3, 9)
    assert patch >= 2


def test_ensure_jars_an_empty_folder_is_filled_once(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing jars are fetched by their coordinates, each once; progress goes to stderr, and the next call asks nobody."""
    paths = jars.ensure_jars("spark")
    assert [path.name for path in paths] == [jar.file for jar in jars.LOCK["spark"]]
    assert set(repository.asked.values()) == {1}
    said = capsys.readouterr()
    assert "fetching 4 files for Spark (10 MB)" in said.err
    assert said.out == ""
    assert jars.ensure_jars("spark") == paths
    assert repository.asked.total() == 4
    assert all(path.stat().st_nlink == 1 for path in paths)


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_ensure_jars_a_damaged_jar_is_named_and_fetched_again_once(filled: Repository, damage: str) -> None:
    """A jar that is cut, has one bit flipped or is empty is named, removed and fetched again; the others are not."""
    path = next(jar.path for jar in jars.LOCK["spark"] if jar.file == CUT)
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-7], "flipped": content[:99] + bytes([content[99] ^ 1]) + content[100:], "emptied": b""}[damage])
    said: list[str] = []
    jars.ensure_jars("spark", progress=said.append)
    assert path.read_bytes() == content
    assert filled.asked == {CUT: 1}
    assert said[0].startswith(f"{CUT} is damaged")


def test_ensure_jars_a_jar_that_stays_damaged_is_an_error(filled: Repository) -> None:
    """If the jar that is fetched again is wrong too, the error names it, and no wrong file is kept."""
    path = next(jar.path for jar in jars.LOCK["spark"] if jar.file == CUT)
    path.write_bytes(b"x")
    filled.faults[CUT] = ["other"] * 9
    with pytest.raises(SupplyError, match=f"{CUT} arrived damaged"):
        jars.ensure_jars("spark", progress=lambda line: None)
    assert not path.exists()
    assert filled.asked == {CUT: 1}


@pytest.mark.parametrize("fault", ["cut", "other"])
def test_ensure_jars_a_download_that_fails_once_is_tried_again(repository: Repository, fault: str) -> None:
    """A download that breaks off or brings something else is tried once more, and then the set is whole."""
    repository.faults[CUT] = [fault]
    jars.ensure_jars("spark", progress=lambda line: None)
    assert repository.asked[CUT] == 2
    assert jars.check_jars(jars.LOCK["spark"]) == ([], [])


def test_ensure_jars_a_server_that_falls_silent_is_given_up(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A mirror that stops in the middle of a file is given up, and nothing half-fetched is left."""
    monkeypatch.setattr(jars, "SILENCE_SECONDS", 0.3)
    repository.faults = {jar.file: ["stall"] * 9 for jar in jars.LOCK["spark"]}
    with pytest.raises(SupplyError, match="does not answer"):
        jars.ensure_jars("spark", progress=lambda line: None)
    repository.release.set()
    assert wait_for(lambda: not names_in(tmp_path / "home" / "jars"), 10)


def test_ensure_jars_without_a_network_says_what_is_missing_and_the_recipe(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a network the error says which of how many jars are missing and how to get them offline."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("KIT_MAVEN_REPOSITORY", f"http://127.0.0.1:{port}")
    with pytest.raises(SupplyError, match=r"missing files for Spark: 4 of 4 \(commons-pool2.*ConnectionError.*copy that machine"):
        jars.ensure_jars("spark", progress=lambda line: None)


def test_ensure_jars_offline_asks_nobody(filled: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """With KIT_OFFLINE=1 a whole set is used, a missing jar is named, and no connection is made."""
    monkeypatch.setenv("KIT_OFFLINE", "1")
    jars.ensure_jars("spark")
    next(jar.path for jar in jars.LOCK["spark"] if jar.file == CUT).unlink()
    with pytest.raises(SupplyError, match=rf"KIT_OFFLINE is set; missing files for Spark: 1 of 4 \({CUT}\)"):
        jars.ensure_jars("spark")
    assert not filled.asked


def test_ensure_jars_an_authority_that_only_the_system_knows_is_trusted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A repository whose certificate is signed by an authority of the system's, not of Python's, can be used."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=kit", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    repository.socket = context.wrap_socket(repository.socket, server_side=True)
    monkeypatch.setenv("KIT_MAVEN_REPOSITORY", repository.url.replace("http:", "https:"))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    jars.ensure_jars("spark", progress=lambda line: None)
    assert set(repository.asked.values()) == {1}


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ensure_jars_two_processes_at_once_fetch_once(repository: Repository) -> None:
    """Of several processes that need the jars at once, one fetches and the others wait for it."""
    several = [start("from kitlib.lab import jars; jars.ensure_jars('spark')") for _ in range(3)]
    for process in several:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert set(repository.asked.values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ensure_jars_stopped_in_the_middle_is_completed_by_the_next(
    repository: Repository, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C or a kill during the download leaves no file that could be taken for whole; the next call completes it."""
    repository.faults[CUT] = ["stall"]
    process = start("import sys; from kitlib.lab import jars; jars.SETS = ('spark',); sys.exit(jars.main())")
    assert wait_for(lambda: repository.asked[CUT] and names_in(tmp_path / "home" / "jars"), 30)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert not jars.check_jars(jars.LOCK["spark"])[1]
    repository.release.set()
    jars.ensure_jars("spark", progress=lambda line: None)
    assert names_in(tmp_path / "home" / "jars") == {jar.file for jar in jars.LOCK["spark"]}
