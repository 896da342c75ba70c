"""Names as they may be printed: a trace's can hold anything, and a log is read by terminals and by programs that take lines for commands."""
from __future__ import annotations

import re

# What src/answer/escape.c escapes: control characters, line ends, marks of direction, and what UTF-8 can't hold.
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Returns the text with such characters written as the bytes of their UTF-8: \\x1b."""
    return HIDDEN.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass")), text)
