"""Speculation leaves the joint law of the output as it is: G-tests against exact enumeration.

A tiny vocabulary has a second-order Markov chain for its target, so that the probability of each
triple of tokens is known.  The real verification runs over drafts and trees of all kinds a million
times each (`make lossless`; `make test` a twelfth of that), and the counts of all 64 triples are
compared with what they have to be.  Verifiers that are wrong in a known way show that the test
would notice.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from typing import Any

import numpy as np
import pytest
from exactness import run
from real_prompts import STEP
from scripted_proposers import TreeProposer, random_tree, usable_tree
from scripted_target import ScriptedTarget

from speclsp.decoding.sampling import SamplingParams, SeededSampler
from speclsp.decoding.verify import verify_chain, verify_tree
from speclsp.drafting.cost import straight_curve
from speclsp.drafting.drafter import Candidate, Draft, DraftContext, DraftTree
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.token_tree import is_chain

N_VOCAB = 4
N_TRIPLES = N_VOCAB**3
N_RUNS = 1_000_000 // STEP
N_TREES = 64
ALARM = 1e-4
"""p-value below which the law is taken to be wrong; the runs are seeded, so this is no lottery."""

Context = tuple[int, int]
START: Context = (0, 1)
_TABLE = np.random.default_rng(11).dirichlet([0.7] * N_VOCAB, size=(N_VOCAB, N_VOCAB))


def exact_law() -> np.ndarray:
    """The probability of each triple, in the order of their ids."""
    law = []
    for a, b, c in product(range(N_VOCAB), repeat=3):
        law.append(_TABLE[START][a] * _TABLE[START[1], a][b] * _TABLE[a, b][c])
    return np.array(law)


def p_value(counts: np.ndarray) -> float:
    """The G-test's p-value of ``counts`` against the exact law.

    The χ² distribution's tail is Wilson and Hilferty's normal approximation, which is good to three
    digits at 63 degrees of freedom.
    """
    expected = exact_law() * counts.sum()
    seen = counts > 0
    g = 2.0 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum())
    df = N_TRIPLES - 1
    z = ((g / df) ** (1.0 / 3.0) - (1.0 - 2.0 / (9.0 * df))) / math.sqrt(2.0 / (9.0 * df))
    return 0.5 * math.erfc(z / math.sqrt(2.0))


class InverseSampler:
    """Draws from rows that are cumulative distributions: exact, and fast for tiny ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def sample(self, row: Sequence[float]) -> int:
        return bisect_right(row, self._random())


CUMULATIVE = {
    (a, b): [*list(accumulate(_TABLE[a, b].tolist()))[:-1], 1.0]
    for a, b in product(range(N_VOCAB), repeat=2)
}


def rows_of(context: Context, tree: DraftTree) -> list[list[float]]:
    """What the target predicts behind the context and behind each node."""
    contexts = [context]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        contexts.append((contexts[parent + 1][1], token))
    return [CUMULATIVE[c] for c in contexts]


Verify = Callable[[Any, DraftTree, Any], Iterator[tuple[int, int]]]


def verify(rows: Any, tree: DraftTree, sampler: Any) -> Iterator[tuple[int, int]]:
    """As the loop chooses."""
    if is_chain(tree):
        return verify_chain(rows, tree.tokens, sampler)
    return verify_tree(rows, tree.tokens, tree.parents, sampler)


def count_triples(
    trees: dict[Context, list[DraftTree]], seed: int, how: Verify, n_runs: int = N_RUNS
) -> np.ndarray:
    """Run passes until three tokens are out, ``n_runs`` times; trees are picked at random."""
    prepared = {
        context: [(rows_of(context, tree), tree) for tree in some]
        for context, some in trees.items()
    }
    sampler = InverseSampler(seed)
    pick = random.Random(seed + 1).random
    counts = [0] * N_TRIPLES
    for _ in range(n_runs):
        context, n_out, triple = START, 0, 0
        while n_out < 3:
            some = prepared[context]
            rows, tree = some[int(pick() * len(some))]
            for token, _node in how(rows, tree, sampler):
                context = (context[1], token)
                triple = triple * N_VOCAB + token
                n_out += 1
                if n_out == 3:
                    break
        counts[triple] += 1
    return np.array(counts)


def likely_tree(context: Context, n_children: int, depth: int) -> DraftTree:
    """The most probable tokens behind each node: many children, and most of the mass."""
    edges: list[tuple[int, int]] = []
    level = [(-1, context)]
    for _ in range(depth):
        following = []
        for parent, (a, b) in level:
            for token in np.argsort(-_TABLE[a, b])[:n_children].tolist():
                edges.append((parent, token))
                following.append((len(edges) - 1, (b, token)))
        level = following
    return DraftTree(tuple(t for _, t in edges), tuple(p for p, _ in edges))


def unlikely_chain(context: Context) -> DraftTree:
    """The least probable token behind each one before it."""
    tokens = []
    a, b = context
    for _ in range(3):
        token = int(np.argmin(_TABLE[a, b]))
        tokens.append(token)
        a, b = b, token
    return DraftTree(tuple(tokens), (-1, 0, 1))


def trees_of(kind: str) -> dict[Context, list[DraftTree]]:
    generator = np.random.default_rng(len(kind))
    trees: dict[Context, list[DraftTree]] = {}
    for context in CUMULATIVE:
        if kind == "nothing":
            trees[context] = [DraftTree()]
        elif kind == "likely trees":
            trees[context] = [likely_tree(context, 2, 3), likely_tree(context, 3, 2)]
        elif kind == "all children":
            trees[context] = [likely_tree(context, N_VOCAB, 1)]
        elif kind == "unlikely chains":
            trees[context] = [unlikely_chain(context)]
        else:
            depth_bias = {"random chains": 1.0, "deep trees": 0.8, "wide trees": 0.1}[kind]
            trees[context] = [
                usable_tree(random_tree(generator, n_nodes, N_VOCAB, depth_bias=depth_bias), 12, 9)
                for n_nodes in generator.integers(0, 13, N_TREES).tolist()
            ]
    return trees


KINDS = (
    "likely trees",
    "wide trees",
    "deep trees",
    "all children",
    "unlikely chains",
    "random chains",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_triples_have_the_targets_law(kind, capsys):
    trees = trees_of(kind)
    n_branching = sum(not is_chain(tree) for some in trees.values() for tree in some)
    assert (n_branching > 0) == (kind not in ("unlikely chains", "random chains"))
    counts = count_triples(trees, seed=KINDS.index(kind), how=verify)
    assert counts.sum() == N_RUNS
    p = p_value(counts)
    with capsys.disabled():
        print(f"\njoint law, {kind}: {N_RUNS} triples, G-test p = {p:.3f}")  # noqa: T201
    assert p > ALARM


def verify_too_kindly(rows: Any, tree: DraftTree, sampler: Any) -> Iterator[tuple[int, int]]:
    """Like the right one, but draws once more where no child fits: a second chance for drafts."""
    node = -1
    while True:
        children = [i for i, parent in enumerate(tree.parents) if parent == node]
        token = sampler.sample(rows[node + 1])
        if children and all(tree.tokens[i] != token for i in children) and token == 0:
            token = sampler.sample(rows[node + 1])
        node = next((i for i in children if tree.tokens[i] == token), -1)
        yield token, node
        if node == -1:
            return


def verify_in_a_wrong_row(rows: Any, tree: DraftTree, sampler: Any) -> Iterator[tuple[int, int]]:
    """Takes the row of the node before the right one now and then."""
    for place, (token, node) in enumerate(verify_tree(rows, tree.tokens, tree.parents, sampler)):
        if place == 1 and node == -1:
            token = sampler.sample(rows[0])  # noqa: PLW2901
        yield token, node


@pytest.mark.parametrize("wrong", [verify_too_kindly, verify_in_a_wrong_row])
def test_a_wrong_verifier_is_noticed(wrong):
    assert p_value(count_triples(trees_of("likely trees"), 1, wrong, 50_000)) < 1e-6


# --- the whole loop with its own sampler ------------------------------------------------------


def scripted_target() -> ScriptedTarget:
    logs = np.log(_TABLE)
    return ScriptedTarget(lambda cached: logs[cached[-2], cached[-1]], N_VOCAB, n_ctx=16)


class PlacesDrafter:
    """Knows places behind which stood what is likely, and what is not."""

    name = "places"

    def begin(self, context: DraftContext) -> None:
        self._text = list(context.prompt)

    def candidates(self, generated: Sequence[int], n_max: int) -> Sequence[Candidate]:
        a, b = [*self._text, *generated][-2:]
        tokens = np.argsort(-_TABLE[a, b])[:2].tolist()
        return [Candidate([token], "buffer", 16 * n) for n, token in enumerate(tokens, start=1)]

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        raise AssertionError("it is asked for candidates")

    def accept(self, n_accepted: int) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["trees", "merged"])
def test_the_loop_with_its_sampler_has_the_targets_law(kind, capsys):
    n_runs = 30_000 // min(STEP, 6)
    params = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=21)
    sampler = SeededSampler(params)
    target = scripted_target()
    generator = np.random.default_rng(4)
    trees = [
        random_tree(generator, n_nodes, N_VOCAB, depth_bias=0.5)
        for n_nodes in generator.integers(1, 10, 200).tolist()
    ]
    drafter: Any = TreeProposer(lambda generated: trees[int(generator.integers(len(trees)))])
    if kind == "merged":
        drafter = DraftMerger([PlacesDrafter()], mode="tree", p_split=0.02, n_max=6)  # type: ignore[list-item]
    counts = np.zeros(N_TRIPLES)
    n_accepted = 0
    for _ in range(n_runs):
        context = DraftContext(prompt=START, verify_curve=straight_curve(0.01))
        generation = run(target, context, drafter, sampler, n_predict=3)
        a, b, c = generation.tokens
        counts[(a * N_VOCAB + b) * N_VOCAB + c] += 1
        n_accepted += generation.stats.n_accepted
        assert generation.drafter_failures == ()
    p = p_value(counts)
    with capsys.disabled():
        print(  # noqa: T201
            f"\njoint law, the loop with {kind}: {n_runs} triples, G-test p = {p:.3f}, "
            f"{n_accepted / n_runs:.2f} draft tokens accepted per triple"
        )
    assert n_accepted > n_runs / 4
    assert p > ALARM
