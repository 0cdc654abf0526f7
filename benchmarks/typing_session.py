"""Cases replayed as one working session: bursts of keys, jumps between places, one request per key.

Two files of a project are open, and the human goes from one to the other every 40 to 60 keys,
which are ``JUMP_KEYS``; a place that was left is gone on with later.

Keys: one per character, but a line's indentation comes with the Enter before it, as editors do.

A suggestion is taken where the human goes on with exactly its text, and has noticed it some keys
earlier; until then it is typed through.  Where its first lines only are the human's, these are
taken.  Fewer than ``LEAST_TAKEN`` characters that are not blank are typed faster than they are
read, and a suggestion that is wrong is typed over.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.askers import Answer, Asker
from benchmarks.cases import EditCase
from benchmarks.figures import Percentiles
from speclsp.seam.statistics import SessionStats

LEAST_TAKEN: Final = 3
"""Characters, blanks aside, that a suggestion must save to be taken."""

_KEY: Final = re.compile(r"(?:\r\n|\r|\n)(?:[ \t]+(?=[^\s]|\Z))?|.", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A suggestion on screen: ``text`` replaces the next ``n_replaced`` characters."""

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
    """The last action, and the rest of the suggestion that it left on screen."""

    step: Step
    rest: Suggestion | None = None
    took_all: bool = False


def replay_typing(
    cases: Sequence[EditCase],
    asker: Asker,
    *,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> TypedSession:
    """Type all cases; ``progress`` is told how many characters were written.

    Raises :class:`~speclsp.errors.SpecLspError` where a request fails.
    """
    session = TypedSession()
    for n_chars in typed_bursts(cases, asker, session, seed=seed):
        progress(n_chars)
    return session


def typed_bursts(
    cases: Sequence[EditCase], asker: Asker, session: TypedSession, *, seed: int
) -> Iterator[int]:
    """Type all cases into ``session``; yield the characters written after each burst of keys.

    Two sessions can take turns in this way.
    """
    generator = random.Random(f"typing {seed}")  # noqa: S311 - no secret
    for place in _bursts(cases):
        if not place.is_open:
            asker.enter(place.case)
            place.is_open = True
        n_before = place.n_typed
        _type_burst(place, generator.randint(*JUMP_KEYS), asker, session)
        if place.n_typed == len(place.case.typed):
            asker.leave(place.case)
        yield place.n_typed - n_before


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


def _type_burst(place: _Place, n_keys: int, asker: Asker, session: TypedSession) -> None:
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
            )
        )
        if answer.text:
            asker.shown(answer)
        asker.rest()
        rest = case.typed[place.n_typed :]
        if not rest or n_pressed == n_keys:
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
        last = _Last(step, left, took_all)
        place.n_typed += len(written)
        session.n_chars += len(written)


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


STEPS: Final[tuple[Step, ...]] = ("line", "newline", "jump")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypingCounts:
    """A session's figures.

    ``evaluated``: prompt tokens per request that reached the model, by step and for ``all``.
    ``ms``: milliseconds per request, by who answered and for ``all``.
    """

    n_requests: int
    n_keys: int
    n_jumps: int
    n_takes: int
    n_chars: int
    n_chars_saved: int
    n_shown: int
    n_fitting: int
    """Requests behind something that left a rest of what was shown."""
    n_fitting_from_memory: int
    n_after_taking: int
    """Requests behind a suggestion that was taken as a whole."""
    n_after_taking_from_memory: int
    n_from_memory: int
    n_filtered: int
    n_target_passes: int
    n_predicted: int
    evaluated: dict[str, Percentiles]
    ms: dict[str, Percentiles]
    n_evaluated: int
    """Prompt tokens of all requests."""
    n_idle_evaluated: int
    """Prompt tokens that were evaluated in idle time for later requests."""
    n_prefetch_evaluated: int
    """Prompt tokens that were evaluated to complete behind a suggestion on the screen."""
    n_prefetch_predicted: int
    """Tokens that were predicted there."""

    @property
    def memory_share(self) -> float:
        """Share of the requests that fit what was shown and were answered from memory."""
        return self.n_fitting_from_memory / self.n_fitting if self.n_fitting else 0.0

    @property
    def evaluated_per_char(self) -> float:
        """Prompt tokens, those of idle work and prefetch among them, per character written."""
        n_all = self.n_evaluated + self.n_idle_evaluated + self.n_prefetch_evaluated
        return n_all / self.n_chars if self.n_chars else 0.0


def count_typing(session: TypedSession, stats: SessionStats) -> TypingCounts:
    """Add up a session; ``stats`` are the completer's own sums over it."""
    asked = session.requests
    fitting = [request for request in asked if request.was_fitting]
    taken = [request for request in asked if request.after_taking]
    return TypingCounts(
        n_requests=len(asked),
        n_keys=session.n_keys,
        n_jumps=session.n_jumps,
        n_takes=session.n_takes,
        n_chars=session.n_chars,
        n_chars_saved=session.n_chars_saved,
        n_shown=sum(bool(request.answer.text) for request in asked),
        n_fitting=len(fitting),
        n_fitting_from_memory=_n_from(fitting, "memory"),
        n_after_taking=len(taken),
        n_after_taking_from_memory=_n_from(taken, "memory"),
        n_from_memory=_n_from(asked, "memory"),
        n_filtered=_n_from(asked, "filter"),
        n_target_passes=sum(request.answer.stats.n_target_passes for request in asked),
        n_predicted=sum(request.answer.stats.n_predicted for request in asked),
        evaluated=_evaluated(asked),
        ms=_milliseconds(asked),
        n_evaluated=sum(request.answer.stats.n_prompt_evaluated for request in asked),
        n_idle_evaluated=stats.n_idle_evaluated,
        n_prefetch_evaluated=stats.prefetch.n_prompt_evaluated,
        n_prefetch_predicted=stats.prefetch.n_predicted,
    )


def _n_from(asked: Sequence[TypedRequest], source: str) -> int:
    return sum(request.answer.source == source for request in asked)


def _evaluated(asked: Sequence[TypedRequest]) -> dict[str, Percentiles]:
    numbers: dict[str, list[float]] = {step: [] for step in (*STEPS, "all")}
    for request in asked:
        # A request that was withheld by the settings has no prompt.
        if request.answer.source == "model" and request.answer.stats.n_prompt:
            for name in (request.step, "all"):
                numbers[name].append(request.answer.stats.n_prompt_evaluated)
    return {name: Percentiles.of(values) for name, values in numbers.items()}


def _milliseconds(asked: Sequence[TypedRequest]) -> dict[str, Percentiles]:
    numbers: dict[str, list[float]] = {name: [] for name in ("model", "memory", "filter", "all")}
    for request in asked:
        for name in (request.answer.source, "all"):
            numbers[name].append(request.answer.ms)
    return {name: Percentiles.of(values) for name, values in numbers.items()}
