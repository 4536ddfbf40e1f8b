"""Java's reading of bytes as text, where they are not what UTF-8 allows.

Source: OpenJDK 17, `String(byte[], Charset)`. Differs: nothing.
"""

from __future__ import annotations

import re

_OF_A_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NEVER_IN_UTF8 = b"\xff"


def text_of(raw: bytes) -> str:
    """The text of UTF-8 bytes; each run of bytes that begins a character and does not end it is one U+FFFD.

    So do Java and Python. Of half a surrogate pair (U+D800 to U+DFFF, in three bytes) Java makes one as well, Python one for each byte.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _OF_A_SURROGATE.sub(_NEVER_IN_UTF8, raw).decode(errors="replace")
