from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speclsp.drafting.gaps import Gaps

SPANS = [(idx * 10 + 1, idx * 10 + 1 + idx % 10) for idx in range(30)]


@given(
    taken=st.lists(st.sampled_from(SPANS), unique=True),
    given_back=st.sets(st.sampled_from(SPANS)),
    hidden=st.sets(st.sampled_from(SPANS)),
)
def test_equals_sets(
    taken: list[tuple[int, int]], given_back: set[tuple[int, int]], hidden: set[tuple[int, int]]
) -> None:
    gaps = Gaps(taken[:3])
    for span in taken[3:]:
        gaps.add(*span)
    for span in given_back & set(taken):
        gaps.discard(*span)
    left = set(taken) - given_back
    assert len(gaps) == len(left)
    wider = gaps.widened(hidden - left)
    for each, spans in ((gaps, left), (wider, left | hidden)):
        covered = {place for start, end in spans for place in range(start, end)}
        places = list(range(310))
        expected = [place for place in places if place not in covered]
        assert each.uncovered(places) == expected
        assert each.uncovered_places(np.array(places, dtype=np.int32)).tolist() == expected
        assert [place for place in places if not each.cover(place)] == expected
