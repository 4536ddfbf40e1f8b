"""A web page of the kit's own: what runs in it is what the kit has put into it, and a stranger's text stays text.

A policy in the page's head names the scripts and styles that may run by their sha256, and forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from kitlib import __version__
from kitlib.text import show_text

# JavaScript that sets an element's own style is let through: no stranger's text ever becomes an attribute's name.
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src-attr 'unsafe-inline'"


def to_page(
    title: str, body: str, *, style: str, data: tuple[str, Any], script: str = "", src: str = "", policy: Sequence[str] = ()
) -> str:
    """A whole page: `body` is HTML, `data` an element's name and what it holds as JSON; then a script, in the page or at `src`.

    `policy` is what else is allowed, such as "connect-src 'self'".
    """
    scripts = "'self'" if src else _hash(script)
    rules = [POLICY, f"style-src {_hash(style)}", f"script-src {scripts}", *policy]
    name, value = data
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="referrer" content="no-referrer">',
        f'<meta name="generator" content="Delivery Lab {__version__}">',
        f"<title>{show_text(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        body,
        f'<script type="application/json" id="{name}">{to_json(value)}</script>',
        f'<script type="module" src="{src}"></script>' if src else f'<script type="module">{script}</script>',
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def to_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end that element, or begin another one."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _hash(source: str) -> str:
    """How a policy names a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
