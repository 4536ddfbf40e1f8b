"""The process that forks Spark's Pythons, with what each of them would import, one by one, imported once."""

from importlib import import_module

if __name__ == "__main__":
    for name in ("pandas", "pyarrow", "pyspark.worker"):
        import_module(name)
    import_module("pyspark.daemon").manager()
