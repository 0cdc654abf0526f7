"""The interface between decoding loop and drafters, and guarded, counted calls of drafters."""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from speclsp.drafting.cost import AskingCost
from speclsp.drafting.drafter import (
    NO_CONTEXT,
    NO_DRAFT,
    Candidate,
    Draft,
    DraftContext,
    Drafter,
    DraftTree,
    ModelDrafter,
    TreeDrafter,
)
from speclsp.errors import DrafterError
from speclsp.seam.statistics import DrafterStats

Clock: TypeAlias = Callable[[], float]
"""Returns seconds."""

_T = TypeVar("_T")


def stopped_clock() -> float:
    """Return 0: without a clock all times are 0."""
    return 0.0


@runtime_checkable
class Proposer(Protocol):
    """Combines all drafters.  It never raises, whatever they do.

    ``begin`` once per request, then ``propose`` before each target pass, and ``accept`` after each
    pass that verified a tree with nodes.
    """

    clock: Clock
    """Set by the decoding loop before ``begin``."""

    @property
    def failures(self) -> tuple[DrafterError, ...]:
        """Why drafters were left out of this request."""

    def begin(self, context: DraftContext) -> None:
        """Start a request: counts start at 0."""

    def propose(self, generated: Sequence[int], n_max: int) -> DraftTree:
        """Return at most ``n_max`` nodes to follow the prompt and ``generated``.

        ``generated`` is the same list throughout a request and stays as it is afterwards.
        The tree is valid and has no more leaves than the context's ``n_branches``.
        """

    def accept(self, path: Sequence[int], *, stopped: bool = False) -> None:
        """The nodes ``path`` of the last tree, from the root down, became output; maybe none.

        ``stopped``: the output ended with the last of them, so nothing after it was verified.
        """

    def stats(self) -> dict[str, DrafterStats]:
        """Counts and times since the last :meth:`begin`, by drafter name."""


class DraftLimits(NamedTuple):
    """The least and the most tokens of a draft; shorter ones are dropped."""

    n_min: int = 0
    n_max: int | None = None


NO_LIMITS: Final = DraftLimits()

_PLAIN: Final = (int, float)

_COUNTED_AS: Final = {
    "begin": ("n_begin_calls", "ms_begin"),
    "asking_cost": ("", "ms_draft"),
    "draft": ("n_draft_calls", "ms_draft"),
    "candidates": ("n_draft_calls", "ms_draft"),
    "accept": ("n_accept_calls", "ms_accept"),
}
"""The fields of :class:`~speclsp.seam.statistics.DrafterStats` that count a drafter's calls."""


class MeasuredDrafter:
    """Calls a drafter, counts and times its calls, and catches its exceptions.

    A drafter begins a request with :meth:`begin`, or when it is first asked.  One that raised is
    not called again until the next request starts; :attr:`failure` says why.
    """

    def __init__(self, drafter: Drafter, limits: DraftLimits = NO_LIMITS) -> None:
        self.drafter = drafter
        self.name = drafter.name
        self._limits = limits
        self._branching = drafter if isinstance(drafter, TreeDrafter) else None
        self._model = drafter if isinstance(drafter, ModelDrafter) else None
        self.sources: dict[str, str] = {}
        """The names that the table of p̂ has for its sources."""
        self._is_own = type(drafter).__module__.startswith("speclsp.")
        """Whether its candidates need no check."""
        self._n_told = min(2, len(inspect.signature(drafter.accept).parameters))
        """Arguments of ``accept`` that the drafter takes."""
        self.start(NO_CONTEXT, stopped_clock)

    @property
    def branches(self) -> bool:
        """Whether it gives several candidates."""
        return self._branching is not None

    @property
    def asks_model(self) -> bool:
        """Whether it asks a model of its own."""
        return self._model is not None

    @property
    def n_most(self) -> int:
        """Most tokens of a draft of a model."""
        return self._most(self._model.n_most) if self._model is not None else 0

    def token_cost(self, _generated: Sequence[int]) -> AskingCost | None:
        """Return what a draft token of a model takes; None before that was measured."""
        return self._model.token_cost if self._model is not None else None

    def asking_cost(self, generated: Sequence[int]) -> AskingCost | None:
        """Return what asking a model takes now; None if that is not known."""
        if self._model is None:
            return None
        return self._called("asking_cost", self._model.asking_cost, generated)

    def start(self, context: DraftContext, clock: Clock) -> None:
        """Start a request: counts and times start at 0."""
        self.failure: DrafterError | None = None
        self._context = context
        self._clock = clock
        self._counts: dict[str, Any] = defaultdict(int)
        """By the fields of :class:`~speclsp.seam.statistics.DrafterStats`."""
        self._drafted_at: Counter[int] = Counter()
        self._accepted_at: Counter[int] = Counter()
        self._ns_native = 0
        self._ms_pass = 0.0
        """What the drafter has taken in the present pass."""

    def start_pass(self) -> None:
        """Begin to time a pass."""
        self._ms_pass = 0.0

    def count_step(self) -> None:
        """Count what was timed since then as the time of a pass with a draft."""
        self._counts["ms_steps"] += self._ms_pass

    def begin(self) -> None:
        """Let the drafter begin the request."""
        self._called("begin", self.drafter.begin, self._context)

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        """Return the drafter's draft: at most ``n_max`` tokens of the vocabulary."""
        draft = self._called("draft", self._drafted, generated, self._most(n_max)) or NO_DRAFT
        n_min, held = max(1, self._limits.n_min), self._context.held
        if len(draft.tokens) < n_min or not held.admits(generated, draft.tokens):
            return NO_DRAFT
        self._counts["n_proposed_drafts"] += 1
        self._counts["n_proposed"] += len(draft.tokens)
        return draft

    def candidates(self, generated: Sequence[int], n_max: int) -> list[Candidate]:
        """Return the candidates of a drafter that gives several, each usable as a draft is."""
        n_max = self._most(n_max)
        return self._called("candidates", self._usable_candidates, generated, n_max) or []

    def source(self, own: str) -> str:
        """Return the name that the table of p̂ has for a source of the drafter."""
        return self.sources.setdefault(own, f"{self.name}:{own}" if own else self.name)

    def accept(self, n_accepted: int, n_verified: int) -> None:
        """Tell the drafter how much of its draft was verified, and how much became output."""
        self._called("accept", self.drafter.accept, *(n_accepted, n_verified)[: self._n_told])

    def count(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count one verified draft by its tokens' positions (depths in a tree), from 0.

        ``accepted`` are the positions of those that became output.
        """
        self._counts["n_drafts"] += 1
        self._counts["n_accepted_drafts"] += len(accepted) > 0
        for place in drafted:
            self._drafted_at[place] += 1
        for place in accepted:
            self._accepted_at[place] += 1

    def stats(self) -> DrafterStats:
        """Return the counts and times of the present request."""
        depths = range(max(self._drafted_at, default=-1) + 1)
        return DrafterStats(
            **self._counts,
            n_drafted=self._drafted_at.total(),
            n_accepted=self._accepted_at.total(),
            n_drafted_at=tuple(self._drafted_at[depth] for depth in depths),
            n_accepted_at=tuple(self._accepted_at[depth] for depth in depths),
            ms_decode=self._ns_native / 1e6,
        )

    def _most(self, n_max: int) -> int:
        return n_max if self._limits.n_max is None else min(n_max, self._limits.n_max)

    def _called(self, call: str, function: Callable[..., _T], *arguments: object) -> _T | None:
        """Call ``function`` as the drafter's ``call``; return None where it raises."""
        if call != "begin" and not self._counts["n_begin_calls"]:
            self.begin()
        if self.failure is not None:
            return None
        n_calls, ms = _COUNTED_AS[call]
        if n_calls:
            self._counts[n_calls] += 1
        started = self._clock()
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - drafters may be foreign code; it is reported
            self.failure = DrafterError(
                f"drafter {self.name!r} failed in {call}(): {type(error).__name__}: {error}.",
                remedy="It is left out of this completion; take it out of `drafters` if that "
                "goes on.",
            )
            self.failure.__cause__ = error
            return None
        finally:
            taken = (self._clock() - started) * 1e3
            self._counts[ms] += taken
            self._ms_pass += taken

    def _drafted(self, generated: Sequence[int], n_max: int) -> Draft:
        native_before = self._model.ns_native if self._model is not None else 0
        draft = self.drafter.draft(generated, n_max)
        if not hasattr(draft, "tokens"):
            raise TypeError(
                f"it returned {type(draft).__name__}, not speclsp.drafting.drafter.Draft"
            )
        if self._model is not None:
            self._ns_native += self._model.ns_native - native_before
        n_max = self._n_before_end(draft.tokens[: max(n_max, 0)])
        return usable(draft, n_max, self._context.n_vocab)

    def _usable_candidates(self, generated: Sequence[int], n_max: int) -> list[Candidate]:
        assert self._branching is not None
        candidates = list(self._branching.candidates(generated, n_max))
        n_vocab, n_min = self._context.n_vocab, max(1, self._limits.n_min)
        ends, held, sources = self._context.end_tokens, self._context.held, self.sources
        if not (self._is_own or _are_usable(candidates, n_max, n_vocab)):
            plain = [_plain(one) for one in candidates]
            check_tokens([token for one in plain for token in one.tokens], n_vocab)
            candidates = [one for one in plain if _are_usable([one], n_max, n_vocab)]
        kept: list[Candidate] = []
        n_proposed = 0
        for whole, source, match_length, n_places, probabilities in candidates:
            tokens = whole if ends.isdisjoint(whole) else whole[: self._n_before_end(whole)]
            n_tokens = len(tokens)
            if n_tokens < n_min or (held.data and not held.admits(generated, tokens)):
                continue
            full = sources.get(source) or self.source(source)
            own = probabilities[:n_tokens] if probabilities else ()
            kept.append(Candidate(tokens, full, match_length, n_places, own))
            n_proposed += n_tokens
        self._counts["n_proposed_drafts"] += len(kept) > 0
        self._counts["n_proposed"] += n_proposed
        return kept

    def _n_before_end(self, tokens: Sequence[int]) -> int:
        """Return how many tokens are before the first that ends the output."""
        ends = self._context.end_tokens
        ended = (idx for idx, token in enumerate(tokens) if token in ends)
        return next(ended, len(tokens))


def _are_usable(candidates: Sequence[Candidate], n_max: int, n_vocab: int) -> bool:
    """Whether all have 1 to ``n_max`` token ids, and plain numbers in range.

    Raises TypeError for what is no number.  All are checked in one call, since one call for each
    would take as long as finding them.
    """
    every_token: list[int] = []
    every_probability: list[float] = []
    n_matched = 0
    for tokens, _, match_length, n_places, probabilities in candidates:
        if not 0 < len(tokens) <= n_max or match_length < 0 or not n_places > 0.0:
            return False
        if not isinstance(probabilities, tuple | list):  # an array has no truth value
            return False
        # Not +=, which for an array would be NumPy's addition.
        every_token.extend(tokens)
        every_probability.extend(probabilities)
        n_matched += match_length
    if not every_token:
        return True
    # A sum has Python's own type only if all terms have: NumPy's integers lack methods of int.
    if type(sum(every_token) + n_matched) is not int:
        return False
    if type(sum(every_probability)) not in _PLAIN:
        return False
    return min(every_token) >= 0 and (not n_vocab or max(every_token) < n_vocab)


def _plain(candidate: Candidate) -> Candidate:
    """Return ``candidate`` with Python's own numbers.  Raises TypeError for other types."""
    return candidate._replace(
        tokens=tuple(map(index, candidate.tokens)),
        match_length=index(candidate.match_length),
        probabilities=tuple(map(float, candidate.probabilities)),
    )


def usable(draft: Draft, n_max: int, n_vocab: int) -> Draft:
    """Return ``draft`` cut to ``n_max`` tokens; all numbers become Python's own.

    Raises TypeError for tokens and match lengths that are no integers, and what
    :func:`check_tokens` raises.
    """
    tokens = tuple(map(index, draft.tokens[: max(n_max, 0)]))
    if not tokens:
        return NO_DRAFT
    check_tokens(tokens, n_vocab)
    probabilities = tuple(map(float, draft.probabilities[: len(tokens)]))
    return Draft(tokens, draft.source, index(draft.match_length), probabilities)


def check_tokens(tokens: Sequence[int], n_vocab: int) -> None:
    """Raise ValueError for tokens outside the vocabulary; ``n_vocab`` 0 if its size is not known.

    The message is the same for all, since one message is reported once.
    """
    if tokens and (min(tokens) < 0 or (n_vocab and max(tokens) >= n_vocab)):
        raise ValueError(f"it drafted tokens outside the vocabulary, which has {n_vocab:,}")
