"""What the web worker of `kit page` asks: one open experiment at a time. JSON goes in and comes out."""

from __future__ import annotations

import json
import traceback

from kitlib.errors import KitError
from kitlib.experiments.script import Script
from kitlib.views.browser.session import Session, whole_seed


class Desk:
    """A session, and its answers as texts that JavaScript can read. Nothing raises: what fails is told in a sentence."""

    session: Session  # the one that was opened last

    @property
    def frames(self) -> bytes:
        """The pictures of the run that is shown now."""
        return self.session.frames

    def answer(self, asked: str) -> str:
        """Answer a player's question with `told`.

        To "open" an experiment asks for a new session, by `name`, `seed` and `knobs` or by the text of a `script`. It is answered with
        `heading` as well, or with a sentence as `refused`; then the session that was open stays.
        """
        question = json.loads(asked)
        if question["do"] != "open":
            try:
                self.session.answer(question)
            except Exception:  # noqa: BLE001 - `told` says so already
                traceback.print_exc()
            return json.dumps({"told": self.session.told})
        try:
            if text := question.get("script"):
                self.session = Session(Script.parse(text))
            else:
                self.session = Session(str(question["name"]), seed=whole_seed(question["seed"]), knobs=dict(question["knobs"]))
        except KitError as error:
            return json.dumps({"refused": str(error)})
        except Exception as error:  # noqa: BLE001 - the page must not wait for ever
            traceback.print_exc()
            return json.dumps({"refused": f"The kit itself failed ({type(error).__name__}), which is a bug."})
        return json.dumps({"heading": self.session.heading, "told": self.session.told})
