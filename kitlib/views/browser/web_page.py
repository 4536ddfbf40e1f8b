"""A web page of the kit's own: what runs in it is what the kit has put into it, and a stranger's text stays text.

A policy in the page's head names the scripts and styles that may run by their sha256, and forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import jinja2

from kitlib import __version__
from kitlib.text import plain_text
from kitlib.views.browser.player import HERE

# JavaScript that sets an element's own style is let through: no stranger's text ever becomes an attribute's name.
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src-attr 'unsafe-inline'"


PAGES = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, loader=jinja2.FileSystemLoader(HERE))


def to_page(
    form: str, title: str, *, style: str, data: tuple[str, Any], script: str = "", src: str = "", policy: Sequence[str] = (), **told: Any
) -> str:
    """A whole page of a form beside this file: `data` is an element's name and what it holds as JSON; its script is here or at `src`.

    `policy` is what else is allowed, such as "connect-src 'self'"; `told` is what the form tells.
    """
    scripts = "'self'" if src else _hash(script)
    rules = [POLICY, f"style-src {_hash(style)}", f"script-src {scripts}", *policy]
    parts = {"style": style, "data": to_json(data[1]), "script": script}
    return PAGES.get_template(form).render(
        title=plain_text(title), policy="; ".join(rules), version=__version__, name=data[0], src=src, **parts, **told
    )


def to_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end that element, or begin another one."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _hash(source: str) -> str:
    """How a policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
