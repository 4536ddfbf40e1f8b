"""The workspace: refused early when the lab cannot live in it, and never half-written (row 21 of the faults)."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from kitlib.errors import DiskError
from kitlib.lab import workspace

as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere, so permissions cannot be tested as root")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    monkeypatch.setenv("KIT_HOME", str(place))
    return place


@pytest.mark.parametrize("name", ["plain", "with spaces", "Übung für Zöe", "日本語", "it's (1) & $HOME", "x" * 200])
def test_ensure_an_odd_but_possible_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Spaces, umlauts, quotes and long names in the workspace's path work."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path / name))
    assert workspace.ensure() == tmp_path / name
    assert all(folder.is_dir() for folder in (workspace.jars_dir(), workspace.data_dir(), workspace.spark_dir()))


@pytest.mark.parametrize("character", [":", ";", ",", "\n", '"', "\\"])
def test_ensure_a_path_that_a_part_would_cut_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    """A path with a character at which Java, Kafka or Spark would cut it is refused before anything is made."""
    place = tmp_path / f"a{character}b"
    monkeypatch.setenv("KIT_HOME", str(place))
    with pytest.raises(DiskError, match="KIT_HOME"):
        workspace.ensure()
    assert not place.exists()


def test_ensure_a_path_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of more than 1,024 bytes is refused with its length and the limit."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "/".join(["x" * 100] * 12)))
    with pytest.raises(DiskError, match="more than 1024"):
        workspace.ensure()


@pytest.mark.parametrize("part", ["", "jars", "run"])
def test_ensure_a_file_in_the_way_is_named(home: Path, part: str) -> None:
    """A file where a folder is needed is named and left alone."""
    blocker = home / part
    blocker.parent.mkdir(parents=True, exist_ok=True)
    blocker.write_text("mine")
    with pytest.raises(DiskError, match="is a file"):
        workspace.ensure()
    assert blocker.read_text() == "mine"


@as_root
def test_ensure_a_folder_without_permission_is_refused(home: Path) -> None:
    """A workspace that cannot be written is refused with the reason and what to do."""
    home.mkdir()
    home.chmod(0o555)
    try:
        with pytest.raises(DiskError, match="KIT_HOME"):
            workspace.ensure()
    finally:
        home.chmod(0o755)


@pytest.mark.parametrize("name", ["run", "data", "spark", "jupyter", "ipython"])
def test_ensure_folders_with_what_a_learner_typed_are_closed_to_others(home: Path, name: str) -> None:
    """Only the user can look into the folders of tokens, records, Spark's rows and IPython's history, even if one was open before."""
    (home / name).mkdir(parents=True, mode=0o777)
    workspace.ensure()
    assert stat.S_IMODE((home / name).stat().st_mode) == 0o700


def test_write_atomic_readers_never_see_a_part(tmp_path: Path) -> None:
    """Whoever reads while a file is replaced sees the old text or the new one, whole."""
    path = tmp_path / "state.json"
    texts = {"a" * 50_000, "b" * 70_000}
    workspace.write_atomic(path, "a" * 50_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in texts:
                workspace.write_atomic(path, text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {path.read_text() for _ in range(300)}
    finally:
        stop.set()
        writer.join()
    assert seen <= texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


REASONS = [
    (errno.ENOSPC, 4096, "the disk is full, 4,096 bytes free in {place}. Make room there, or choose another place."),
    (errno.ENOSPC, 2_000_000, "No space left on device, 2 MB free in {place}. Make room there, or choose another place."),
    (errno.EDQUOT, 2_000_000, "Disk quota exceeded, 2 MB free in {place}. Make room there, or choose another place."),
    (errno.EFBIG, 2_000_000, "a limit on file sizes is reached. Raise it with `ulimit -f`, or choose another place."),
    (errno.EACCES, 4096, "Permission denied. Change its permissions, or choose another place."),
    (errno.EROFS, 4096, "Read-only file system. Choose another place."),
]


@pytest.mark.parametrize(("number", "free", "told"), REASONS, ids=[told for _, _, told in REASONS])
def test_disk_error_tells_the_reason_and_its_own_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, free: int, told: str
) -> None:
    """A write that fails says why, how much room there is when that is why, and what helps; the old text stays."""
    path = tmp_path / "state.json"
    workspace.write_atomic(path, "old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        with pytest.raises(DiskError) as raised:
            workspace.write_atomic(path, "new")
    assert str(raised.value) == f"{path} could not be written: {told.format(place=tmp_path)}"
    assert path.read_text() == "old"


def test_direct_loopback_keeps_the_users_own_exceptions() -> None:
    """This machine is added to the hosts that no proxy serves; what was there stays."""
    result = workspace.direct_loopback({"NO_PROXY": "intranet, 127.0.0.1", "HTTP_PROXY": "x"})
    assert result["NO_PROXY"] == "intranet,127.0.0.1,localhost,::1"
    assert result["no_proxy"] == "127.0.0.1,localhost,::1"
    assert workspace.direct_loopback({"no_proxy": "*"})["no_proxy"] == "*"


def test_write_atomic_replaces_regular_files_alone(tmp_path: Path) -> None:
    """A FIFO, a device and a folder stay as they are; a link stays too, and its target is written and keeps its permissions."""
    fifo, target, link = (tmp_path / name for name in ("fifo", "target", "link"))
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/null"), tmp_path):
        before = path.stat().st_mode
        with pytest.raises(DiskError, match=r"no regular file, and is not replaced|is a folder"):
            workspace.write_atomic(path, "new")
        assert path.stat().st_mode == before
    target.write_text("old")
    target.chmod(0o644)
    link.symlink_to(target)
    workspace.write_atomic(link, "new")
    assert link.is_symlink() and target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o644
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(DiskError, match="leads nowhere"):
        workspace.write_atomic(tmp_path / "round", "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link", "round", "target"]
