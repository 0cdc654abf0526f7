"""A cursor's surroundings, bounded, and whether a later cursor is the same place typed on.

Texts are compared within ``N_CHARS`` of the cursor, and their lengths beyond that: an edit far
away that keeps the length is not noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from speclsp.request import CompletionRequest

N_CHARS: Final = 4096
"""Characters before and after the cursor that are kept and compared."""
MAX_CLOSERS: Final = 64
"""Most characters that an editor closes brackets and quotes with on its own: with a line end and
indentation, where it puts a brace on a line below."""

_CLOSERS: Final = frozenset(")]}\"'`>; \t\r\n")


class Moved(NamedTuple):
    """What happened between a place and a later cursor."""

    typed: str
    """What stands between the two."""
    closers: str
    """Closing brackets and quotes that stand after the cursor now and did not before, with the
    white space between them."""
    n_passed: int
    """Characters that stood after the place and do not stand after the cursor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cursor in one document."""

    before: str
    n_before: int
    """Characters before the cursor in all."""
    after: str
    n_after: int

    def moved_to(self, request: CompletionRequest) -> Moved | None:
        """Return how the request's cursor came from here by typing; None where it did not."""
        prefix, suffix = request.prefix, request.suffix
        n_typed = len(prefix) - self.n_before
        if n_typed < 0 or not prefix.startswith(self.before, self.n_before - len(self.before)):
            return None
        typed = prefix[self.n_before :]
        n_new = len(suffix) - self.n_after
        if n_new <= 0:
            if not suffix.startswith(self.after[-n_new:]):
                return None
            return Moved(typed, "", -n_new)
        closers = suffix[:n_new]
        if n_new > MAX_CLOSERS or set(closers) - _CLOSERS or not typed:
            return None
        return Moved(typed, closers, 0) if suffix.startswith(self.after, n_new) else None


def place_of(request: CompletionRequest) -> Place:
    """Return where a request's cursor is."""
    return Place(
        before=request.prefix[-N_CHARS:],
        n_before=len(request.prefix),
        after=request.suffix[:N_CHARS],
        n_after=len(request.suffix),
    )


def rules_of(request: CompletionRequest) -> tuple[object, ...]:
    """Return all of a request beside its texts that an answer depends on, to compare."""
    return (
        request.path,
        request.repo_name,
        request.language_id,
        request.file,
        request.single_line,
        request.max_lines,
        request.n_predict,
        request.temperature,
        request.top_k,
        request.top_p,
        request.min_p,
        request.seed,
        repr(sorted(request.overrides.items())),
    )
