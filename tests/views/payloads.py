"""Content that tries to become something else on a screen: the set that every view is tested with."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from kitlib.views import Picture

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "</title></desc></text></style><img src=http://127.0.0.1:9/x>",
    '" onload="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "javascript:alert(1)",
    "]]><!--",
    "&lt;b&gt;&#60;",
    "/etc/hostname",
    "[link=http://127.0.0.1:9]x[/link] [/bold]",
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m",
    "\x9b31m\x00\x08\x7f",
    "\u202egnp.exe\u2066\u2069",
    "a\r\nb\tc\u2028d",
    "\ud800lone",
    "\ufeff\u200b\ufffe\U000e0041",
    "$(touch x) {{7*7}} ${alert(1)} %s %n",
    "=cmd|' /C calc'!A0",
    "x" * 5000,
)
FORBIDDEN = ("<img", "<script", "</script", "<foreignObject", "<iframe", "href=")
DRAWN = {"svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "g", "text", "tspan", "circle"}


def assert_only_text(picture: Picture) -> None:
    """The picture has elements that are drawn and no others, and no character that a screen would obey."""
    tags = {node.tag.removeprefix("{http://www.w3.org/2000/svg}") for node in ET.fromstring(picture.svg).iter()}
    assert tags <= DRAWN
    assert not [word for word in FORBIDDEN if "<" in word and word in picture.svg]
    assert not re.search(r"[\x00-\x08\x1b\x7f-\x9f\u202a-\u202e\ud800-\udfff]", picture.svg + repr(picture))
