"""What the web worker of `kit page` asks: one open experiment at a time. JSON goes in and comes out."""

from __future__ import annotations

import json
import traceback

from kitlib.errors import KitError
from kitlib.experiments.interventions import ScriptError
from kitlib.experiments.script import Script
from kitlib.text import plain_text
from kitlib.views.session import Session, whole_seed


def _meant(name: str, text: str | None) -> str | Script:
    """What a link opens: an experiment, or a script of it. ScriptError when the script is none, or another experiment's."""
    if text is None:
        return name
    script = Script.parse(text)
    if script.experiment != name:
        raise ScriptError(f"the link is one of {plain_text(name, 60)}, and its script one of {script.experiment}. Copy the link again.")
    return script


class Desk:
    """A session, and its answers as texts that JavaScript can read. Nothing raises: what fails is told in a sentence."""

    def __init__(self) -> None:
        self.session: Session | None = None

    @property
    def frames(self) -> bytes:
        """The pictures of the run that is shown now."""
        return self.session.frames if self.session else b""

    def open(self, asked: str) -> str:
        """Begin a session: `asked` holds `name`, `seed` and `knobs`, as a link does, and among the knobs perhaps a `script`.

        Gives `heading` and `told`, or a sentence as `refused`.
        """
        try:
            row = json.loads(asked)
            knobs = dict(row["knobs"])
            what = _meant(str(row["name"]), knobs.pop("script", None))
            self.session = Session(what, seed=whole_seed(row["seed"]), knobs=knobs)
        except KitError as error:
            return json.dumps({"refused": str(error)})
        except Exception as error:  # noqa: BLE001 - the page must not wait for ever
            traceback.print_exc()
            return json.dumps({"refused": f"The kit itself failed ({type(error).__name__}), which is a bug."})
        return json.dumps({"heading": self.session.heading, "told": self.session.told})

    def ask(self, question: str) -> str:
        """Answer a player's question; `told` comes back."""
        session = self._opened()
        try:
            session.answer(json.loads(question), may_wait=True)
        except Exception:  # noqa: BLE001 - `told` says so already
            traceback.print_exc()
        return json.dumps(session.told)

    def complete(self) -> str:
        """Draw the steps that are not drawn yet; `told` comes back."""
        session = self._opened()
        session.complete()
        return json.dumps(session.told)

    def _opened(self) -> Session:
        if self.session is None:
            raise RuntimeError("no experiment is open")
        return self.session
