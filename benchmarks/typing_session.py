"""Replays cases as one working session: bursts of keys, jumps between places, one ask per key.

Two files of a project are open, and the human goes from one to the other every 40 to 60 keys,
which are ``JUMP_KEYS``; a place that was left is gone on with later.  A suggestion that fits is
noticed after some keys, until then it is typed through, and taken as :mod:`benchmarks.typist`
says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.asking import Answer, Asker
from benchmarks.cases import EditCase
from benchmarks.typist import Suggestion, keys

Step = Literal["line", "newline", "jump"]
"""What the human did last before a request: something within a line, something over a line end, or
going elsewhere."""

JUMP_KEYS: Final = (40, 60)
"""Least and most keys between two jumps."""
NOTICED_AFTER: Final = 2
"""Keys of a suggestion that are typed before the human looks up and takes it."""
_N_OPEN: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRequest:
    """One request of a session."""

    step: Step
    answer: Answer
    was_fitting: bool
    """Whether what was typed or taken last left a rest of what was shown."""
    after_taking: bool
    """Whether a whole suggestion was taken last."""
    n_chars: int
    """Characters of the session that were written before."""
    n_taken: int
    """Of them, those that were taken since the request before; 0 behind a key."""


@dataclass(slots=True)
class TypedSession:
    """What happened in a session."""

    requests: list[TypedRequest] = field(default_factory=list)
    n_keys: int = 0
    n_jumps: int = 0
    n_takes: int = 0
    n_chars: int = 0
    """Characters that were written, by keys and by taking."""
    n_chars_taken: int = 0
    is_cut: bool = False
    """Whether it ended before everything was written."""

    def until(self, n_chars: int) -> TypedSession:
        """Return its beginning: what happened up to the last request behind so many characters.

        A jump there is left out: nothing was written behind it, and a session that ended there has
        none.
        """
        asked = [request for request in self.requests if request.n_chars <= n_chars]
        if len(asked) > 1 and asked[-1].step == "jump":
            del asked[-1]
        n_takes = sum(request.n_taken > 0 for request in asked)
        n_jumps = sum(request.step == "jump" for request in asked)
        return TypedSession(
            requests=asked,
            n_keys=len(asked) - n_jumps - n_takes,
            n_jumps=n_jumps,
            n_takes=n_takes,
            n_chars=asked[-1].n_chars if asked else 0,
            n_chars_taken=sum(request.n_taken for request in asked),
            is_cut=self.is_cut or len(asked) < len(self.requests),
        )

    @property
    def n_chars_saved(self) -> int:
        """Characters that were taken instead of typed; each take is a key press, too."""
        return self.n_chars_taken - self.n_takes


@dataclass(slots=True)
class _Place:
    """A case that is being written."""

    case: EditCase
    n_typed: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class _Last:
    """What the human did last, and what was left on the screen by it."""

    step: Step
    rest: Suggestion | None = None
    took_all: bool = False
    n_taken: int = 0


def replay_typing(
    cases: Sequence[EditCase],
    asker: Asker,
    *,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> TypedSession:
    """Type all cases; ``progress`` is told how many characters were written.

    ``is_over`` is asked before each request, and cuts the session short.
    Raises :class:`~speclsp.errors.SpecLspError` where a request fails.
    """
    session = TypedSession()
    generator = random.Random(f"typing {seed}")  # noqa: S311 - no secret
    for place in _bursts(cases):
        if is_over():
            session.is_cut = True
        if session.is_cut:
            break
        if not place.is_open:
            asker.enter(place.case)
            place.is_open = True
        n_before = place.n_typed
        _type_burst(place, generator.randint(*JUMP_KEYS), asker, session, is_over)
        if place.n_typed == len(place.case.typed):
            asker.leave(place.case)
        progress(place.n_typed - n_before)
    return session


def _bursts(cases: Sequence[EditCase]) -> Iterator[_Place]:
    """Yield places in the order in which they are gone to, each until it is finished."""
    waiting = [_Place(case) for case in cases]
    opened: list[_Place] = []
    while waiting or opened:
        while len(opened) < _N_OPEN and (place := _next(waiting, opened)) is not None:
            waiting.remove(place)
            opened.append(place)
        current = opened.pop(0)
        yield current
        if current.n_typed < len(current.case.typed):
            opened.append(current)


def _next(waiting: list[_Place], opened: list[_Place]) -> _Place | None:
    """The next case of the same project in another file; the first one where none is open."""
    for place in waiting:
        if not opened:
            return place
        case, others = place.case, [other.case for other in opened]
        if case.project == others[0].project and case.path not in {o.path for o in others}:
            return place
    return None


def _type_burst(
    place: _Place,
    n_keys: int,
    asker: Asker,
    session: TypedSession,
    is_over: Callable[[], bool],
) -> None:
    case = place.case
    last = _Last("jump")
    n_fitting = 0
    session.n_jumps += 1
    for n_pressed in range(n_keys + 1):
        answer = asker.ask(case, place.n_typed)
        session.requests.append(
            TypedRequest(
                step=last.step,
                answer=answer,
                was_fitting=last.rest is not None,
                after_taking=last.took_all,
                n_chars=session.n_chars,
                n_taken=last.n_taken,
            )
        )
        if answer.text:
            asker.shown(answer)
        asker.rest()
        rest = case.typed[place.n_typed :]
        if not rest or n_pressed == n_keys:
            return
        if is_over():
            session.is_cut = True
            return
        shown = Suggestion(text=answer.text, n_replaced=answer.n_replaced) if answer.text else None
        if shown != last.rest:
            n_fitting = 0  # another suggestion has to be noticed anew
        n_taken = shown.taken(rest, case.suffix) if shown and n_fitting >= NOTICED_AFTER else 0
        if n_taken:
            asker.taken(answer, min(n_taken, len(answer.text)))
            written = rest[:n_taken]
            session.n_takes += 1
            session.n_chars_taken += n_taken
        else:
            written = keys(rest)[0]
            session.n_keys += 1
        left = shown.after(written) if shown else None
        n_fitting = n_fitting + 1 if left is not None and not n_taken else 0
        took_all = bool(n_taken) and left is None
        step: Step = "newline" if _has_line_end(written) else "line"
        last = _Last(step, left, took_all, n_taken)
        place.n_typed += len(written)
        session.n_chars += len(written)


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text
