"""The player's half beside the models: it needs no widget."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY


def test_a_session_of_every_experiment_needs_the_standard_library_alone() -> None:
    """Without any installed package each experiment runs, is judged, and its pictures are made."""
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(REPOSITORY)!r})
        from kitlib.experiments import names
        from kitlib.views.browser.session import Session
        for name in names():
            assert Session(name, knobs={{"max_steps": 40}}).frames
        print(sorted({{module.partition(".")[0] for module in sys.modules}} - set(sys.stdlib_module_names) - {{"__main__"}}))
    """
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (answer.stdout.strip(), answer.stderr) == ("['kitlib']", "")
