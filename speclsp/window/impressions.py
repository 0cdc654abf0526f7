"""How suggestions count that an editor shows: each is shown once, and accepted once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, Literal

SHOWN_AFTER_S: Final = 0.5
"""Seconds on screen after which a suggestion counts as shown before it has ended."""

_MAX_COUNTED: Final = 512


class Impressions:
    """Counts what was shown and accepted of one kind of suggestion, by the suggestions' ids.

    What is on screen counts when it has been there for half a second, or when it ends: it was
    accepted, typed over, or another one took its place.  It counts once, however often it is shown
    and however much is typed through it.  Not synchronised; ``now`` is in seconds of the caller's
    clock.
    """

    def __init__(self) -> None:
        self._shown_at: dict[str, tuple[float, int]] = {}
        """Since when those are on screen that may not count yet, and their characters."""
        self._counted: OrderedDict[str, Literal["shown", "in part", "whole"]] = OrderedDict()
        """The latest ones that count, and how much of each was accepted."""
        self._n_shown = self._n_whole = self._n_in_part = 0
        self._n_chars = self._n_chars_shown = self._n_chars_typed_over = 0

    def shown(self, suggestion_id: str, n_chars: int, now: float) -> None:
        """Note that a suggestion of ``n_chars`` characters, or the rest of it, is on screen."""
        if suggestion_id not in self._counted:
            self._shown_at.setdefault(suggestion_id, (now, n_chars))

    def typed_over(self, n_chars: int) -> None:
        """Note that something else was typed than the last ``n_chars`` characters on screen."""
        self._n_chars_typed_over += n_chars

    def ended(self, suggestion_id: str) -> None:
        """Note that a suggestion has left the screen."""
        if suggestion_id not in self._shown_at:
            return
        _, n_chars = self._shown_at.pop(suggestion_id)
        self._n_shown += 1
        self._n_chars_shown += n_chars
        self._counted[suggestion_id] = "shown"
        if len(self._counted) > _MAX_COUNTED:
            self._counted.popitem(last=False)

    def accepted(self, suggestion_id: str, n_chars: int, *, to_its_end: bool) -> None:
        """Note that ``n_chars`` further characters of a suggestion were accepted.

        One of which parts were accepted is accepted in part until its end is.
        """
        self.shown(suggestion_id, n_chars, 0.0)
        self.ended(suggestion_id)
        self._n_chars += n_chars
        before = self._counted[suggestion_id]
        if before != "whole":
            self._counted[suggestion_id] = "whole" if to_its_end else "in part"
            self._n_whole += to_its_end
            self._n_in_part += (not to_its_end) - (before == "in part")

    def counts(self, now: float) -> dict[str, Any]:
        """Return the counts, by the fields of :class:`~speclsp.seam.statistics.SessionStats`."""
        read = [n for since, n in self._shown_at.values() if now - since >= SHOWN_AFTER_S]
        return {
            "n_shown": self._n_shown + len(read),
            "n_chars_shown": self._n_chars_shown + sum(read),
            "n_chars_typed_over": self._n_chars_typed_over,
            "n_accepted_items": self._n_whole,
            "n_partially_accepted": self._n_in_part,
            "n_chars_accepted": self._n_chars,
        }
