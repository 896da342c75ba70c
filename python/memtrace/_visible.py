"""Escapes names for printing: a trace's name can contain anything, and terminals, and programs that interpret lines as
commands, read the log."""
from __future__ import annotations

import re

# The characters that src/answer/escape.c escapes: control characters, line ends, bidi marks, surrogates, U+FFFE and U+FFFF.
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Returns the text with such characters escaped as their UTF-8 bytes: \\x1b."""
    return HIDDEN.sub(lambda found: "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass")), text)
