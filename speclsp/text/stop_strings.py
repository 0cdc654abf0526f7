"""Stop strings of a growing text: all are looked for at once, whatever their number.

The automaton is that of Aho and Corasick, "Efficient string matching: an aid to bibliographic
search" (1975): its state is the longest end of the text that begins a stop string.
"""

from __future__ import annotations

from collections.abc import Iterable


class StopStrings:
    """Finds stop strings in a text that is fed in parts."""

    def __init__(self, stops: Iterable[str]) -> None:
        """Empty strings are left out."""
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._found = [""]
        """By state: the longest stop string that ends there."""
        for stop in filter(None, stops):
            self._add(stop)
        self._fallback = [0] * len(self._next)
        self._link()
        self._state = 0

    @property
    def n_held(self) -> int:
        """Number of last characters of the text that begin a stop string."""
        return self._depth[self._state]

    def feed(self, new: str) -> tuple[int, str] | None:
        """Take the text's next characters; return the stop string that begins first, if any.

        Its place counts from the beginning of ``new``, and is negative where it begins before.  Of
        two that begin at the same place the first to end counts.
        """
        found: list[tuple[int, str]] = []
        for idx, character in enumerate(new):
            self._state = self._after(self._state, character)
            if stop := self._found[self._state]:
                found.append((idx + 1 - len(stop), stop))
        return min(found) if found else None

    def _add(self, stop: str) -> None:
        state = 0
        for character in stop:
            following = self._next[state].setdefault(character, len(self._next))
            if following == len(self._next):
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._found.append("")
            state = following
        self._found[state] = stop

    def _link(self) -> None:
        """Let each state fall back to the longest of its ends that is a beginning, too."""
        waiting = list(self._next[0].values())
        for state in waiting:  # breadth first: it grows meanwhile
            for character, following in self._next[state].items():
                self._fallback[following] = self._after(self._fallback[state], character)
                self._found[following] = (
                    self._found[following] or self._found[self._fallback[following]]
                )
                waiting.append(following)

    def _after(self, state: int, character: str) -> int:
        while character not in self._next[state]:
            if not state:
                return 0
            state = self._fallback[state]
        return self._next[state][character]
