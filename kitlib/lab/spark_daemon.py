"""The process that forks Spark's Pythons, with what each of them needs imported once.

Left to itself each imports pandas and Arrow, and pyspark from an archive, which Python compiles anew.
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith(("/pyspark.zip", "-src.zip"))]
    for name in ("pandas", "pyarrow", "pyspark.worker"):
        import_module(name)
    import_module("pyspark.daemon").manager()
