"""Texts of others in our messages: nothing in them controls a terminal or turns a line around."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` without characters that are not printable, except those in ``keep``.

    Spaces of any kind, and line ends, become a space.  Control characters, marks of direction and
    of width 0, surrogates, and unassigned and private characters become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in keep
        else " "
        if char.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
