"""From candidates to a token tree: best-first growth by path probability.

The candidates form a trie: at each place the tokens that continue some of them are the options,
with a calibrated probability p̂ each.  A node's path probability is the product of p̂ from the root
down, which is the chance that it becomes output, and growth always takes the most probable node
next.  So the first k nodes are the best tree of k nodes, whatever k is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from speclsp.drafting.calibration import HIGHEST, Calibration, Cell
from speclsp.drafting.candidates import Candidate
from speclsp.drafting.protocol import DraftTree

Groups: TypeAlias = list[tuple[str, Sequence[Candidate]]]
"""Candidates by source as the calibration knows it; of each source the longest match first."""

_Opinions: TypeAlias = dict[int, list[tuple[str, Cell]]]
"""By token: each source that gives it, and the cell that it is calibrated by."""

_N_OPTIONS: Final = 8
"""Most options of a place; twice as many gained 0.3 % on five projects."""
LEAST_PATH: Final = 0.005
"""A path less probable than this is not followed, even where verifying it costs nothing."""


class Option(NamedTuple):
    """A token that may follow at a place."""

    token: int
    probability: float
    """p̂ given that the place is reached."""
    source: str
    """Which source gives it the highest p̂."""
    cells: tuple[Cell, ...]
    """What each source that gives it is calibrated by."""
    joined: float
    """What the sources together make of it, not calibrated yet."""
    agreement: int
    """As :meth:`~speclsp.drafting.calibration.Calibration.joint` takes it."""


class _Place:
    """A place in the trie; its options are worked out when they are first wanted."""

    __slots__ = ("_following", "_groups", "_options", "depth", "places")

    def __init__(self, groups: Groups, depth: int) -> None:
        self._groups = groups
        self._options: list[Option] | None = None
        self._following: dict[int, Groups] = {}
        self.depth = depth
        self.places: dict[int, _Place] = {}

    @property
    def known_options(self) -> Sequence[Option]:
        """The options if they were wanted, else none."""
        return self._options or ()

    def options(self, calibration: Calibration) -> list[Option]:
        """Return the options, the most probable first."""
        if self._options is None:
            groups = self._groups
            if len(groups) == 1 and len(groups[0][1]) == 1:
                self._options = self._sole_option(calibration)
            else:
                self._options = _options(self._sort_in(calibration), calibration)
        return self._options

    def place_after(self, token: int) -> _Place:
        """Return the place behind an option."""
        place = self.places.get(token)
        if place is None:
            place = self.places[token] = _Place(self._following.get(token, []), self.depth + 1)
        return place

    def _sort_in(self, calibration: Calibration) -> _Opinions:
        """Sort the candidates by their next token, and note what each source says of it."""
        opinions: _Opinions = {}
        following_groups = self._following
        depth = self.depth
        for source, candidates in self._groups:
            longest = -1
            n_places = 0.0
            # By token: the longest match that continues with it, for how many places, and who.
            continued: dict[int, tuple[int, float, list[Candidate]]] = {}
            n_places_by_length: dict[int, float] = {}
            for candidate in candidates:
                tokens, _, length, n_own, _ = candidate
                if len(tokens) <= depth:
                    continue
                if longest < 0:
                    longest = length
                token = tokens[depth]
                n_places += n_own
                n_places_by_length[length] = n_places
                known = continued.get(token)
                if known is None:
                    continued[token] = (length, n_own, [candidate])
                    continue
                known[2].append(candidate)
                if known[0] == length:
                    continued[token] = (length, known[1] + n_own, known[2])
            for token, (length, n_with_token, following) in continued.items():
                own = following[0].probabilities
                cell = (
                    calibration.own_cell(source, own[depth])
                    if depth < len(own)
                    else calibration.cell(
                        source,
                        length + depth,
                        n_with_token,
                        n_places_by_length[length],
                        shadowed=length < longest,
                    )
                )
                sources = opinions.get(token)
                if sources is None:
                    opinions[token] = [(source, cell)]
                    following_groups[token] = [(source, following)]
                else:
                    sources.append((source, cell))
                    following_groups[token].append((source, following))
        return opinions

    def _sole_option(self, calibration: Calibration) -> list[Option]:
        """Do all that for a single candidate: most places far from the root have no more."""
        ((source, candidates),) = self._groups
        tokens, _, match_length, n_places, own = candidates[0]
        depth = self.depth
        if len(tokens) <= depth:
            return []
        token = tokens[depth]
        self._following[token] = self._groups
        cell = (
            calibration.own_cell(source, own[depth])
            if depth < len(own)
            else calibration.cell(source, match_length + depth, n_places, n_places, shadowed=False)
        )
        # Rounded as where several are joined: equals must stay equals.
        joined = min(1.0 - (1.0 - cell[0] / cell[1]), HIGHEST)
        return [Option(token, calibration.joint(joined, 0), source, (cell,), joined, 0)]


def _options(opinions: _Opinions, calibration: Calibration) -> list[Option]:
    judged: list[tuple[float, int, list[tuple[str, Cell]]]] = []
    total = 0.0
    for token, sources in opinions.items():
        wrong = 1.0
        for _, (right, seen) in sources:
            wrong *= 1.0 - right / seen
        total += 1.0 - wrong
        judged.append((1.0 - wrong, token, sources))
    scale = HIGHEST / total if total > HIGHEST else 1.0
    # Sorting keeps equals in order, and the sources give the longest and latest first.
    judged.sort(key=_first_of, reverse=True)
    options: list[Option] = []
    agreement = 0
    for alone, token, sources in judged[:_N_OPTIONS]:
        joined = alone * scale
        if len(sources) > 1:
            best = max(sources, key=_mean_of)[0]
            cells = tuple([cell for _, cell in sources])
            probability = calibration.joint(joined, agreement + 1)
            options.append(Option(token, probability, best, cells, joined, agreement + 1))
        else:
            ((best, cell),) = sources
            probability = calibration.joint(joined, agreement)
            options.append(Option(token, probability, best, (cell,), joined, agreement))
        agreement = 2
    return options


def _first_of(item: tuple[float, int, object]) -> float:
    return item[0]


def _mean_of(opinion: tuple[str, Cell]) -> float:
    return opinion[1][0] / opinion[1][1]


@dataclass(slots=True)
class GrownTree:
    """A tree in the order of growth: parents first, the most probable paths first."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    path_probabilities: list[float] = field(default_factory=list)
    may_branch: bool = True
    """Whether the same candidates may give a tree with branches."""

    def first(self, n_nodes: int, owners: Mapping[str, str]) -> DraftTree:
        """Return the best tree of ``n_nodes`` nodes, or of as many as there are.

        Each is credited to the drafter that owns its source.
        """
        return DraftTree(
            tuple(self.tokens[:n_nodes]),
            tuple(self.parents[:n_nodes]),
            tuple(owners[source] for source in self.sources[:n_nodes]),
            tuple(self.probabilities[:n_nodes]),
        )


class CandidateTrie:
    """All candidates of one pass."""

    def __init__(self, groups: Groups, calibration: Calibration) -> None:
        self._calibration = calibration
        self._root = _Place(groups, 0)

    def grow(self, n_max: int, n_branches: int, p_split: float, least_path: float) -> GrownTree:
        """Grow a tree of at most ``n_max`` nodes and ``n_branches`` leaves.

        A second and further child needs a p̂ of at least ``p_split``, and every node a path
        probability of at least ``least_path``.
        """
        if n_branches == 1:
            return self._grow_path(n_max, p_split, least_path)
        tree = GrownTree()
        order = count()
        heap: list[tuple[float, int, int, Option, _Place]] = []
        least_path = max(least_path, LEAST_PATH)
        has_child: set[int] = set()
        n_leaves = 1

        def offer(node: int, place: _Place, path_probability: float) -> None:
            options = place.options(self._calibration)
            for rank, option in enumerate(options):
                path = path_probability * option.probability
                if path >= least_path and (rank == 0 or option.probability >= p_split):
                    heapq.heappush(heap, (-path, next(order), node, option, place))

        offer(-1, self._root, 1.0)
        while heap and len(tree.tokens) < n_max:
            path, _, parent, option, place = heapq.heappop(heap)
            if parent in has_child:
                if n_leaves >= n_branches:
                    continue
                n_leaves += 1
            has_child.add(parent)
            node = len(tree.tokens)
            tree.tokens.append(option.token)
            tree.parents.append(parent)
            tree.sources.append(option.source)
            tree.probabilities.append(option.probability)
            tree.path_probabilities.append(-path)
            if node + 1 < n_max:
                offer(node, place.place_after(option.token), -path)
        return tree

    def _grow_path(self, n_max: int, p_split: float, least_path: float) -> GrownTree:
        """Grow a tree without branches: at each place the best option goes on."""
        tree = GrownTree(may_branch=False)
        place, path = self._root, 1.0
        least_path = max(least_path, LEAST_PATH)
        for node in range(n_max):
            options = place.options(self._calibration)
            if not options or path * options[0].probability < least_path:
                break
            if len(options) > 1:
                second = options[1].probability
                tree.may_branch |= second >= p_split and path * second >= least_path
            option = options[0]
            path *= option.probability
            tree.tokens.append(option.token)
            tree.parents.append(node - 1)
            tree.sources.append(option.source)
            tree.probabilities.append(option.probability)
            tree.path_probabilities.append(path)
            place = place.place_after(option.token)
        return tree

    def observations(self, emitted: Sequence[int]) -> Iterator[tuple[Option, bool]]:
        """Yield each option that was weighed along the emitted tokens, and if it was right."""
        place: _Place | None = self._root
        for token in emitted:
            if place is None:
                return
            for option in place.known_options:
                yield option, option.token == token
            place = place.places.get(token)

    def learn(self, emitted: Sequence[int]) -> None:
        """Teach the calibration what followed."""
        for option, right in self.observations(emitted):
            self._calibration.observe(option.cells, option.joined, option.agreement, right)


def grouped(drafter: str, candidates: Sequence[Candidate]) -> Groups:
    """Sort a drafter's candidates by source, and of each source the longest match first."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        source = candidate[1]
        group = groups.get(source)
        if group is None:
            groups[source] = [candidate]
        else:
            group.append(candidate)
    for group in groups.values():
        # Reversed sorting keeps equals in their order, too.
        group.sort(key=_match_length, reverse=True)
    return [
        (f"{drafter}:{source}" if source else drafter, group) for source, group in groups.items()
    ]


_match_length = attrgetter("match_length")
