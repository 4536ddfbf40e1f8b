"""Only the locked Pyodide is ever used, tried with the real npm against a registry on loopback."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitlib.errors import DiskError, SupplyError
from kitlib.lab import pyodide

NAME, VERSION = pyodide.LOCK.coordinate.split("@")


class Registry(http.server.ThreadingHTTPServer):
    """A registry that has one package: `content`, with the checksum that belongs to it. No content, no package."""

    content = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.content
        checksum = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {"tarball": f"{self.server.url}/{NAME}.tgz", "integrity": checksum}
        about = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: {"name": NAME, "version": VERSION, "dist": dist}}}
        body = content if self.path.endswith(".tgz") else json.dumps(about).encode()
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def package() -> bytes:
    """The real package; where it cannot be had, what follows would test nothing."""
    try:
        return pyodide.ensure().read_bytes()
    except SupplyError as error:
        pytest.skip(f"Pyodide cannot be had here: {error}")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """A registry that npm asks, and an empty workspace."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KIT_OFFLINE", raising=False)
    with Registry() as server:
        monkeypatch.setenv("npm_config_registry", server.url)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def kept() -> list[str]:
    """What lies in the folder of the jars."""
    folder = pyodide.LOCK.path.parent
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def test_what_is_missing_or_damaged_is_fetched_once(registry: Registry, package: bytes) -> None:
    """The locked file is fetched by npm when it is not there or not as locked, and then no one is asked again."""
    registry.content, told = package, list[str]()
    assert pyodide.ensure(told.append).read_bytes() == package
    asked = len(registry.asked)
    assert pyodide.ensure(told.append).read_bytes() == package
    assert (len(told), len(registry.asked), kept()) == (1, asked, [pyodide.LOCK.file])
    pyodide.LOCK.path.write_bytes(package[:1000])
    assert pyodide.ensure(told.append).read_bytes() == package
    assert (len(told), kept()) == (2, [pyodide.LOCK.file]) and len(registry.asked) > asked


def test_another_file_than_the_locked_one_is_not_kept(registry: Registry, package: bytes) -> None:
    """A registry whose file and checksum agree with one another is believed only when they agree with the lock."""
    registry.content = package + b"\0"
    with pytest.raises(SupplyError, match=r"arrived damaged from the network .* and was not kept"):
        pyodide.ensure(lambda line: None)
    assert kept() == []


def test_a_registry_without_the_package_is_told_with_what_to_do(registry: Registry) -> None:
    """npm's own error is in the sentence, and how to bring the file from elsewhere."""
    said = rf"npm could not fetch {pyodide.LOCK.coordinate} \(npm error.*E404.* and copy {pyodide.LOCK.file} to "
    with pytest.raises(SupplyError, match=said):
        pyodide.ensure(lambda line: None)
    assert kept() == []


def test_without_npm_or_a_network_the_sentence_says_what_to_do(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing may be fetched, or nothing can fetch, no one is asked."""
    monkeypatch.setenv("KIT_OFFLINE", "1")
    with pytest.raises(SupplyError, match=r"KIT_OFFLINE is set, and pyodide-\S+ is missing\. Or run `npm pack "):
        pyodide.ensure()
    monkeypatch.delenv("KIT_OFFLINE")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SupplyError, match=r"there is no npm to fetch it\. Install Node\.js, which brings npm\."):
        pyodide.ensure()
    assert registry.asked == []


def test_unpack_gives_a_browser_what_it_loads_and_nothing_else(package: bytes, tmp_path: Path) -> None:
    """The five files and the licenses are written; what is no package of Pyodide is refused."""
    (tmp_path / "good.tgz").write_bytes(package)
    pyodide.unpack(tmp_path / "good.tgz", tmp_path / "out")
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {*pyodide.FILES, "LICENSES.txt"}
    assert (tmp_path / "out" / "pyodide.asm.wasm").read_bytes()[:4] == b"\0asm"
    (tmp_path / "bad.tgz").write_bytes(package[:5000])
    with pytest.raises(SupplyError, match="cannot be unpacked"):
        pyodide.unpack(tmp_path / "bad.tgz", tmp_path / "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DiskError, match="could not be written"):
        pyodide.unpack(tmp_path / "good.tgz", tmp_path / "file")
