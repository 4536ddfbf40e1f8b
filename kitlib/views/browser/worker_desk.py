"""What the web worker of `kit page` asks: one open experiment at a time. JSON goes in and comes out."""

from __future__ import annotations

import json
import traceback

from kitlib.errors import KitError
from kitlib.experiments.script import Script
from kitlib.views.browser.session import Session, whole_seed


class Desk:
    """A session, and its answers as texts that JavaScript can read. Nothing raises: what fails is told in a sentence."""

    def __init__(self) -> None:
        self.session: Session | None = None

    @property
    def frames(self) -> bytes:
        """The pictures of the run that is shown now."""
        return self.session.frames if self.session else b""

    def open(self, asked: str) -> str:
        """Begin a session: `asked` holds `name`, `seed` and `knobs`, or the text of a `script`.

        Gives `heading` and `told`, or a sentence as `refused`; then the session that was open stays.
        """
        try:
            row = json.loads(asked)
            if text := row.get("script"):
                self.session = Session(Script.parse(text))
            else:
                self.session = Session(str(row["name"]), seed=whole_seed(row["seed"]), knobs=dict(row["knobs"]))
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
