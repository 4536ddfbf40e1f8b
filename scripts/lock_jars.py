"""Write kitlib/lab/jars.lock.json anew: which jars the kit needs, and the sha256 of each.

Run by `make lock` when a version below changes. The dependencies of Kafka are resolved here, once,
so that nothing is resolved on a learner's machine: there each locked file is fetched by its
coordinate and compared with its hash.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from jgo.maven import Dependency, MavenContext

LOCK = Path(__file__).resolve().parent.parent / "kitlib" / "lab" / "jars.lock.json"

KAFKA = [
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.slf4j:slf4j-simple:1.7.36",  # without a binding a broker that fails says nothing at all
]
# Exactly these; the other things they depend on are in pyspark's own jars folder.
SPARK = [
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # for delegation tokens, which the kit does not use
    "org.apache.kafka:kafka-clients:3.9.2",  # older ones can write into the wrong topic (CVE-2026-35554)
    "org.apache.commons:commons-pool2:2.13.1",
]


def entry(dependency: Dependency) -> dict[str, str | int]:
    path = dependency.artifact.resolve()
    content = path.read_bytes()
    return {
        "coordinate": f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}",
        "file": path.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = MavenContext(repo_cache=Path(folder), timeout=60)
        roots, others = context.resolver.resolve([context.create_dependency(name) for name in KAFKA])
        kafka = [entry(dependency) for dependency in [*roots, *others]]
        spark = [entry(context.create_dependency(name)) for name in SPARK]
    lock = {name: sorted(jars, key=lambda jar: str(jar["file"])) for name, jars in (("kafka", kafka), ("spark", spark))}
    LOCK.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {len(kafka)} jars for Kafka, {len(spark)} for Spark", file=sys.stderr)


if __name__ == "__main__":
    main()
