"""What a check and an explanation show in a notebook below their box: buttons for a hint and the solution, a field for a text.

They do what `hint("name")`, `solution("name")` and `explain("name", "...")` do, which stay for those who type and for CI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anywidget
import ipywidgets

from kitlib.views.browser.player import joined

Bundle = dict[str, Any]


class TypeOn(anywidget.AnyWidget):
    """Nothing to see; what stands beside it lets Shift+Enter go on to the next cell, so that a text in a field is kept."""

    _esm = joined(("player_dom.js", "type_on.js"))


def with_buttons(shown: Any, more: Mapping[str, Callable[[], Any]]) -> Bundle:
    """What is shown, and a button for each of `more`: pressed, it tells that below."""
    told = ipywidgets.HTML()
    buttons = ipywidgets.HBox([button(label, partial(_tell, told, tell)) for label, tell in more.items()])
    return _bundle(shown, buttons, told)


def with_field(shown: Any, label: str, take: Callable[[str], Any]) -> Bundle:
    """What is shown, a field for a text, and a button that tells below what is made of it."""
    told, field = ipywidgets.HTML(), ipywidgets.Textarea(rows=4, layout={"width": "min(52em, 100%)"}, placeholder="Your explanation")
    return _bundle(shown, field, button(label, partial(_tell, told, lambda: take(field.value))), told)


def button(label: str, act: Callable[[], Any]) -> Any:
    """A button as wide as its label that does something."""
    made = ipywidgets.Button(description=label, layout={"width": "auto", "align_self": "flex-start"})
    made.on_click(lambda _: act())
    return made


def _tell(told: Any, tell: Callable[[], Any]) -> None:
    told.value = tell()._repr_html_()


def _bundle(shown: Any, *below: Any) -> Bundle:
    box = ipywidgets.VBox([ipywidgets.HTML(shown._repr_html_()), *below, TypeOn()])
    return {**box._repr_mimebundle_(), "text/plain": repr(shown), "text/html": shown._repr_html_()}
