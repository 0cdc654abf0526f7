"""The human of a replay: which keys are pressed, and which suggestions are taken.

Keys: one per character, but a line's indentation comes with the Enter before it, as editors do.

A suggestion is taken where the human goes on with exactly its text.  Where that holds for its
first lines only, these are taken.  Fewer than ``LEAST_TAKEN`` characters that are not blank are
typed faster than they are read, and a suggestion that is wrong is typed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LEAST_TAKEN: Final = 3
"""Characters, blanks aside, that a suggestion must save to be taken."""

_KEY: Final = re.compile(r"(?:\r\n|\r|\n)(?:[ \t]+(?=[^\s]|\Z))?|.", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What stands on the screen: ``text`` in place of the next ``n_replaced`` characters."""

    text: str
    n_replaced: int = 0

    def taken(self, rest: str, suffix: str) -> int:
        """Return how many characters of ``rest``, what is still to be typed, it is taken for.

        ``suffix`` is what follows ``rest``, and what ``n_replaced`` counts in.
        """
        after = suffix[self.n_replaced :]
        if self.text + after == rest + suffix:
            return len(rest) if _is_worth_taking(rest) else 0
        if self.n_replaced:
            return 0
        if rest.startswith(self.text):
            return len(self.text) if _is_worth_taking(self.text) else 0
        for n_chars in reversed([idx for idx, char in enumerate(self.text) if char == "\n"]):
            head = self.text[:n_chars].removesuffix("\r")
            ends_there = (rest + suffix[:1])[len(head) : len(head) + 1] in ("", "\n", "\r")
            if rest.startswith(head) and ends_there and _is_worth_taking(head):
                return len(head)
        return 0

    def after(self, typed: str) -> Suggestion | None:
        """Return what is left of it behind ``typed``; None where that does not fit or is all."""
        if not self.text.startswith(typed) or len(typed) == len(self.text):
            return None
        return Suggestion(text=self.text[len(typed) :], n_replaced=self.n_replaced)


def keys(text: str) -> list[str]:
    """Return what each key press adds."""
    return _KEY.findall(text)


def _is_worth_taking(text: str) -> bool:
    return sum(not char.isspace() for char in text) >= LEAST_TAKEN
