"""The process that forks Spark's Pythons, with what each of them would import, one by one, imported once.

Spark starts one for each session and keeps it until it ends itself. So this one leaves when nobody works for it; another can be had.
"""

import gc
import os
import signal
from importlib import import_module

LOOK_EVERY_S = 60  # Spark itself ends a Python that has done nothing for a minute


def leave_if_alone(_number: int, _frame: object) -> None:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    for name in ("pandas", "pyarrow", "pyspark.worker"):
        import_module(name)
    gc.freeze()  # a look at them for garbage would make copies of what the forked share
    signal.signal(signal.SIGALRM, leave_if_alone)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY_S, LOOK_EVERY_S)
    import_module("pyspark.daemon").manager()
