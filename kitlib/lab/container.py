"""JupyterLab as the Docker image starts it: the learner's copies, the lab's settings, and all addresses of the container.

Docker forwards to those; it publishes the port on 127.0.0.1 alone, and the token stays on. There is no lab around it: the
container is what ends everything, and the first cell that needs Kafka starts it.
"""

from __future__ import annotations

import os
import sys

from kitlib.errors import KitError
from kitlib.lab import copies, jupyter, notebook_trust

EVERY_ADDRESS = "0.0.0.0"


def main() -> int:
    """Become JupyterLab; returns an exit code when that cannot be."""
    root = jupyter.project_dir()
    try:
        desk = copies.desk(root)
        copies.make(desk, lambda text: print(text, file=sys.stderr))
        jupyter.write_settings()
        jupyter.clear_leftovers()
        notebook_trust.sign_shipped(desk, jupyter.config_dir() / "data")
        notebook = desk.page(root / jupyter.START_NOTEBOOK)
    except KitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    command = jupyter.command(jupyter.USUAL_PORT, True, desk.top, notebook, EVERY_ADDRESS)
    os.execvpe(command[0], command, jupyter.environment())


if __name__ == "__main__":
    sys.exit(main())
