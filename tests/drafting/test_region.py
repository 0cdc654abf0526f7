"""The region drafter: where it takes drafts from as the output copies, inserts, replaces, skips."""

from collections.abc import Sequence

import numpy as np
import pytest

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.region import RegionDrafter
from speclsp.drafting.teacher_forcing import FREE_CURVE, ReplayCounts, replay

LINE_END = 0
LINES = [[10 * line + place for place in range(1, 6)] for line in range(1, 9)]
"""Eight lines of five tokens of their own, without their ends."""
TEXT = [token for line in LINES for token in (*line, LINE_END)]


def context(*regions: Sequence[int]) -> DraftContext:
    return DraftContext(
        prompt=(),
        regions=tuple(np.array(region, dtype=np.int32) for region in regions),
        ends_line=lambda token: token == LINE_END,
        n_vocab=1000,
        n_branches=8,
        verify_curve=FREE_CURVE,
    )


def drafts(generated: Sequence[int], *regions: Sequence[int], n: int = 4) -> list[tuple[int, ...]]:
    drafter = RegionDrafter(n_draft=96)
    drafter.begin(context(*(regions or (TEXT,))))
    return [tuple(one.tokens) for one in drafter.candidates(generated, n)]


def n_passes(truth: Sequence[int], *regions: Sequence[int]) -> int:
    counts = ReplayCounts()
    merger = DraftMerger([RegionDrafter(n_draft=96)], mode="tree", n_max=32)
    replay(merger, context(*(regions or (TEXT,))), truth, 32, counts)
    assert not merger.failures
    return counts.n_passes


def test_the_output_begins_as_the_region_does():
    assert drafts([])[0] == tuple(TEXT[:4])
    assert drafts(TEXT[:7])[0] == tuple(TEXT[7:11])
    assert n_passes(TEXT) == 2


def test_nothing_is_drafted_without_a_region_and_behind_its_end():
    drafter = RegionDrafter(n_draft=8)
    drafter.begin(context())
    assert drafter.candidates([], 4) == []
    assert drafter.draft([], 4).tokens == ()
    assert drafts(TEXT) == []


def test_a_replaced_token_is_skipped():
    generated = [*TEXT[:8], 999]
    assert tuple(TEXT[9:13]) in drafts(generated)
    assert drafts([*generated, TEXT[9]])[0] == tuple(TEXT[10:14])


def test_inserted_tokens_leave_the_place():
    generated = [*TEXT[:8], 998, 999]
    assert tuple(TEXT[8:12]) in drafts(generated)
    assert drafts([*generated, TEXT[8]])[0] == tuple(TEXT[9:13])


def test_behind_an_inserted_line_the_next_lines_begin():
    generated = [*TEXT[:12], 997, 998, 999, LINE_END]
    assert tuple(LINES[2][:4]) in drafts(generated)  # nothing was replaced
    assert tuple(LINES[3][:4]) in drafts(generated)  # a line was replaced


def test_lines_that_are_left_out_are_found_again_by_one_token():
    generated = [*TEXT[:12], LINES[4][0]]
    assert drafts(generated)[0] == tuple(LINES[4][1:5])


@pytest.mark.parametrize("place", range(0, 40, 7))
def test_each_change_costs_few_passes(place):
    inserted = [*TEXT[:place], 990, 991, *TEXT[place:]]
    replaced = [*TEXT[:place], 990, *TEXT[place + 1 :]]
    deleted = [*TEXT[:place], *TEXT[place + 2 :]]
    assert max(map(n_passes, (inserted, replaced, deleted))) <= 5


def test_repeated_changes_are_drafted_once_they_turn_out_to_be_right():
    changed = [900 if token == LINES[3][2] else token for token in TEXT]
    assert tuple(changed[:30]) in drafts([], TEXT, changed, n=30)
    assert passes_of_six(changed, TEXT) == [3, 3, 3, 3, 3, 3]
    assert passes_of_six(changed, TEXT, changed) == [3, 2, 2, 2, 2, 2]


def passes_of_six(truth: Sequence[int], *regions: Sequence[int]) -> list[int]:
    """Return the passes of six requests that learn from each other."""
    table = AcceptanceTable()
    passes: list[int] = []
    for _ in range(6):
        counts = ReplayCounts()
        merger = DraftMerger([RegionDrafter(n_draft=96)], table, mode="tree", n_max=48)
        replay(merger, context(*regions), truth, 48, counts)
        passes.append(counts.n_passes)
    return passes


def test_a_copied_tokens_match_grows_since_it_was_realigned():
    drafter = RegionDrafter(n_draft=8)
    drafter.begin(context(TEXT))
    generated = [*TEXT[:8], 999, *TEXT[9:12]]
    assert drafter.candidates(generated, 4)[0].match_length == 3
    # Called token by token it says the same.
    other = RegionDrafter(n_draft=8)
    other.begin(context(TEXT))
    for end in range(len(generated)):
        other.candidates(generated[:end], 4)
    assert other.candidates(generated, 4) == drafter.candidates(generated, 4)


def test_tokens_that_are_everywhere_do_not_spread_the_states():
    text = [1, 2] * 400
    drafter = RegionDrafter(n_draft=8)
    drafter.begin(context(text))
    drafter.candidates([*text[:300], 3, 1, 2, 4, 1, 2, 1, 2], 8)
    (alignment,) = drafter._alignments
    assert len(alignment.next_places) < 200
