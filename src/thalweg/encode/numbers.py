"""Numbers as text: the shortest digits that read back as the same bits."""

from __future__ import annotations


def format_number(value: float) -> str:
    """The shortest text that reads back as the same double, as xs:double and as Python's float.

    ``21.4``, ``6.9``, ``0``, ``-0`` (negative zero), ``1e-05``, ``1e+16``; ``NaN``, ``INF``, ``-INF`` for values
    that are not finite (XML Schema part 2, section 3.2.5).
    """
    text = float.__repr__(value)  # NumPy's subclass of float has a repr of its own
    if text.endswith(".0"):
        return text[:-2]
    return _NOT_FINITE.get(text, text)


def format_json_number(value: float) -> str:
    """As ``format_number``, but valid JSON: ``null`` where not finite, and ``-0.0``, since ``-0`` is read as an
    integer, which has no sign to keep (RFC 8259 section 6)."""
    text = float.__repr__(value)
    if text.endswith(".0"):
        return text[:-2] if text != "-0.0" else text
    return "null" if text in _NOT_FINITE else text


_NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
