"""Trees from hand-made candidates: what is weighed how, and in which order nodes grow."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speclsp.drafting.acceptance import PRIOR, AcceptanceTable
from speclsp.drafting.drafter import Candidate
from speclsp.drafting.token_tree import SIZES, CandidateTrie, GrownTree, node_depths


def candidate(text: str, length: int, n_places: float = 1.0, source: str = "buffer") -> Candidate:
    return Candidate([ord(c) for c in text], f"suffix:{source}", length, n_places)


def grow(
    *candidates: Candidate,
    n_max: int = 15,
    n_branches: int = 15,
    p_split: float = 0.0,
    slope: float = 0.0,
    table: AcceptanceTable | None = None,
) -> GrownTree:
    trie = CandidateTrie(candidates, table or AcceptanceTable())
    return trie.grow(n_branches, p_split, costs(n_max, slope))


def costs(n_max: int, slope: float = 0.0) -> list[float]:
    """ln T(k + 1) / T(1) where each further token adds ``slope``."""
    return [math.log(1.0 + slope * size) for size in range(n_max + 1)]


def branches(tree: GrownTree) -> bool:
    return tree.parents != list(range(-1, len(tree.parents) - 1))


def paths(tree: GrownTree) -> list[str]:
    texts: list[str] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        texts.append(("" if parent < 0 else texts[parent]) + chr(token))
    return texts


def test_nothing_grows_from_nothing():
    assert grow() == GrownTree()
    assert grow(n_max=0) == GrownTree()


def test_one_candidate_is_a_chain_that_gets_surer():
    tree = grow(candidate("abcd", 3), n_max=3)
    assert paths(tree) == ["a", "ab", "abc"]
    assert tree.parents == [-1, 0, 1]
    assert tree.sources == ["suffix:buffer"] * 3
    # A match that was right has grown by a token: 3, then 4 and 5 tokens of context.
    assert tree.probabilities[0] < tree.probabilities[1] == tree.probabilities[2]


def test_a_tree_tells_whether_it_branches():
    two = candidate("abc", 8), candidate("abd", 8)
    assert not branches(grow(candidate("abc", 8)))
    assert not branches(grow(*two, n_branches=1))
    assert branches(grow(*two))
    assert not branches(grow(*two, p_split=0.9))


def test_candidates_share_their_beginning_and_branch_where_they_differ():
    tree = grow(candidate("abc", 8), candidate("abd", 8), candidate("ab", 8))
    assert set(paths(tree)) == {"a", "ab", "abc", "abd"}


def test_the_longer_match_comes_first():
    tree = grow(candidate("x", 20), candidate("y", 2), candidate("y", 2))
    assert paths(tree) == ["x", "y"]
    assert tree.probabilities[0] > 2 * tree.probabilities[1]


def test_of_equal_matches_the_more_frequent_comes_first():
    tree = grow(candidate("x", 8), candidate("y", 8), candidate("y", 8))
    assert paths(tree) == ["y", "x"]
    thinned = grow(candidate("x", 8, n_places=5.0), candidate("y", 8), candidate("y", 8))
    assert paths(thinned) == ["x", "y"]


def test_the_first_of_equals_stays_first():
    assert paths(grow(candidate("new", 4), candidate("old", 4)))[0] == "n"


def test_a_better_match_has_the_word_and_the_others_what_it_leaves():
    tree = grow(candidate("x", 8), candidate("xq", 8, source="project"), candidate("y", 2))
    assert paths(tree)[:2] == ["x", "y"] or paths(tree)[0] == "x"
    by_path = dict(zip(paths(tree), tree.probabilities, strict=True))
    assert by_path["x"] == PRIOR[3]
    # The project's match has the same token; the shortest has what both leave.
    left = (1.0 - PRIOR[3]) * PRIOR[1]
    assert math.isclose(by_path["y"], left)


def test_places_that_agree_are_told_from_one_place_alone():
    table = AcceptanceTable()
    for _ in range(100):
        alone = CandidateTrie([candidate("x", 8)], table)
        alone.grow(1, 0.0, costs(1))
        alone.learn([ord("y")])
        many = CandidateTrie([candidate("x", 8, n_places=9.0)], table)
        many.grow(1, 0.0, costs(1))
        many.learn([ord("x")])
    assert grow(candidate("x", 8), table=table).probabilities[0] < 0.2
    assert grow(candidate("x", 8, n_places=9.0), table=table).probabilities[0] > 0.9


def test_a_node_is_credited_to_the_source_that_is_surest():
    unsure = Candidate([ord("x")], "ngram-mod", 2)
    tree = grow(unsure, candidate("x", 30), n_max=4, n_branches=4)
    assert tree.sources == ["suffix:buffer"]
    assert tree.first(1, {"suffix:buffer": "suffix"}).sources == ("suffix",)


def test_probabilities_that_a_source_gives_itself_count():
    tree = grow(Candidate([1, 2], "draft", 0, 1.0, (0.95, 0.15)))
    assert tree.probabilities[0] > 0.9
    assert tree.probabilities[1] < 0.2


def test_a_chain_is_the_best_child_of_each_node():
    candidates = (candidate("ab", 9), candidate("ac", 9), candidate("ac", 9), candidate("z", 9))
    tree = grow(*candidates, n_branches=1)
    assert paths(tree) == ["a", "ac"]
    assert tree.parents == [-1, 0]


def test_p_split_holds_for_second_branches_only():
    weak = candidate("ab", 1), candidate("z", 1)
    assert len(paths(grow(*weak))) == 3
    assert paths(grow(*weak, p_split=0.9)) == ["a", "ab"]


def best_size(tree: GrownTree, slope: float) -> int:
    """The prefix that gains most beyond its cost, among all sizes to choose from."""
    values = {0: 0.0}
    for size in (*(size for size in SIZES if size < len(tree.tokens)), len(tree.tokens)):
        values[size] = expected_log(tree, size) - math.log(1.0 + slope * size)
    return max(values, key=lambda size: (values[size], -size))


def path_probabilities(tree: GrownTree) -> list[float]:
    """The chance of each node to become output."""
    found: list[float] = []
    for parent, probability in zip(tree.parents, tree.probabilities, strict=True):
        found.append((1.0 if parent < 0 else found[parent]) * probability)
    return found


def expected_log(tree: GrownTree, size: int) -> float:
    """E ln n of the ``n`` tokens that a pass over the first ``size`` nodes emits.

    The accepted path ends at a node if the node becomes output and none of its children does.
    """
    paths = path_probabilities(tree)[:size]
    ends = list(paths)
    for node, parent in enumerate(tree.parents[:size]):
        if parent >= 0:
            ends[parent] -= paths[node]
    depths = node_depths(tree.parents)
    return sum(end * math.log(depths[node] + 2) for node, end in enumerate(ends))


@given(
    candidates=st.lists(
        st.builds(candidate, st.sampled_from(["abcdef", "abcxyz", "axx", "z"]), st.integers(1, 48)),
        max_size=6,
    ),
    slope=st.floats(0.01, 2.0),
)
@example([candidate("abcdef", 12), candidate("axx", 16), candidate("z", 4)], 0.01)
def test_growth_ends_where_no_larger_tree_is_better(candidates, slope):
    whole, cut = grow(*candidates), grow(*candidates, slope=slope)
    assert cut.n_best == best_size(whole, slope)
    assert cut.tokens == whole.tokens[: len(cut.tokens)]


def test_steep_costs_end_growth_early():
    assert len(grow(candidate("abcdefgh", 1), slope=1.0).tokens) == 1


def test_the_first_nodes_are_the_best_tree_of_that_size():
    tree = grow(candidate("abc", 8), candidate("xyz", 8), candidate("abd", 4))
    owners = {"suffix:buffer": "suffix"}
    small = tree.first(2, owners)
    assert (small.tokens, small.parents) == (tuple(tree.tokens[:2]), tuple(tree.parents[:2]))
    assert small.probabilities == tuple(tree.probabilities[:2])
    assert len(tree.first(99, owners).tokens) == len(tree.tokens)


def test_what_was_asked_learns_from_what_was_emitted():
    table = AcceptanceTable()
    pair = candidate("ab", 8), candidate("x", 3)
    for _ in range(100):
        trie = CandidateTrie(pair, table)
        trie.grow(15, 0.0, costs(15))
        trie.learn([ord("x"), ord("q")])
    tree = grow(*pair, table=table)
    assert paths(tree)[0] == "x"
    assert tree.probabilities[0] > 0.7


def test_only_places_that_were_asked_teach():
    table = AcceptanceTable()
    trie = CandidateTrie([candidate("abc", 3)], table)
    trie.grow(1, 0.0, costs(1))
    trie.learn([ord("a"), ord("x"), ord("x")])
    trie.learn([])
    # Of 3 tokens of context one was right; of 4, which the second has, nothing is known.
    assert grow(candidate("abc", 3), table=table).probabilities[0] > PRIOR[1]
    assert grow(candidate("abc", 4), table=table).probabilities[0] == PRIOR[2]


_CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.lists(st.integers(0, 4), min_size=1, max_size=8),
        st.sampled_from(["suffix:buffer", "suffix:open", "suffix:project"]),
        st.integers(1, 48),
        st.floats(0.5, 40.0),
        st.lists(st.floats(), max_size=3),
    ),
    max_size=24,
)


@given(
    candidates=_CANDIDATES,
    n_max=st.integers(0, 20),
    n_branches=st.integers(1, 8),
    p_split=st.floats(0.0, 0.5),
)
def test_trees_are_well_formed(candidates, n_max, n_branches, p_split):
    tree = grow(*candidates, n_max=n_max, n_branches=n_branches, p_split=p_split)
    n_nodes = len(tree.tokens)
    assert n_nodes <= n_max
    assert all(-1 <= parent < node for node, parent in enumerate(tree.parents))
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(siblings)) == n_nodes
    assert n_nodes - len(set(tree.parents) - {-1}) <= n_branches
    # Each path stands in some candidate.
    rows = {tuple(c.tokens[:end]) for c in candidates for end in range(len(c.tokens) + 1)}
    reached: list[tuple[int, ...]] = []
    for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
        reached.append((*(() if parent < 0 else reached[parent]), token))
        assert reached[node] in rows
    on_paths = path_probabilities(tree)
    assert all(0.0 < path <= 1.0 for path in on_paths)
    # What adds most comes first.
    added = [
        path * math.log((depth + 2) / (depth + 1))
        for path, depth in zip(on_paths, node_depths(tree.parents), strict=True)
    ]
    assert added == pytest.approx(sorted(added, reverse=True))
    for parent in set(tree.parents):
        total = sum(
            p for p, of in zip(tree.probabilities, tree.parents, strict=True) if of == parent
        )
        assert total < 1.1
