"""Names that XML takes without a colon (NCName): of layers, fields, elements and ids.

The letters are those of the scripts in use that every edition of XML 1.0 has as letters. The fifth edition allows
nearly all characters, but schema validators go by the fourth, and refuse ids and elements that are called otherwise.
"""

from __future__ import annotations

import re
from typing import Final

NAME_START: Final = (
    "A-Z_a-z"
    # Latin
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0180-\u01c3\u01cd-\u01f0"
    "\u01fa-\u0217\u0250-\u02a8\u1e00-\u1e9b\u1ea0-\u1ef9"
    # Greek, Cyrillic, Armenian, Georgian
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce\u1f00-\u1f15\u1f20-\u1f45\u1f80-\u1fb4\u0401-\u040c"
    "\u040e-\u044f\u0451-\u045c\u045e-\u0481\u0490-\u04c4\u0531-\u0556\u0561-\u0586\u10a0-\u10c5\u10d0-\u10f6"
    # Hebrew, Arabic, Devanagari, Thai
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0671-\u06b7\u0905-\u0939\u0e01-\u0e2e"
    # Kana, Bopomofo, Han, Hangul
    "\u3041-\u3094\u30a1-\u30fa\u3105-\u312c\u4e00-\u9fa5\uac00-\ud7a3"
)
"""What a name begins with, as the inside of a character class."""
NAME_CHAR: Final = f"{NAME_START}.0-9\u00b7\u0300-\u0345\u064b-\u0652\u093c-\u094d\u0e30-\u0e3a\u0e40-\u0e4e-"
"""What it goes on with, marks that join letters among them."""
NCNAME: Final = re.compile(f"[{NAME_START}][{NAME_CHAR}]*")
NOT_START: Final = re.compile(f"[^{NAME_START}]")
NOT_NAME: Final = re.compile(f"[^{NAME_CHAR}]")


def is_ncname(text: str) -> bool:
    return NCNAME.fullmatch(text) is not None
