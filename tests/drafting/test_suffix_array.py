from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.drafting import suffix_array
from speclsp.drafting.suffix_array import DEPTH, SEPARATOR, SortInterruptedError, sorted_places

TEXTS = st.lists(st.lists(st.integers(1, 4), max_size=30), max_size=8)


def text_of(files: list[list[int]]) -> np.ndarray:
    values = [SEPARATOR]
    for file in files:
        values += [*file, SEPARATOR]
    return np.array(values + [SEPARATOR] * DEPTH, dtype=np.uint32)


def contexts(text: np.ndarray, places: list[int]) -> list[list[int]]:
    return [text[place : place + DEPTH].tolist() for place in places]


@settings(max_examples=200, deadline=None)
@given(files=TEXTS)
def test_equals_a_plain_sort(files: list[list[int]]) -> None:
    text = text_of(files)
    kept = [p for p in range(1, len(text)) if text[p] != SEPARATOR and text[p - 1] != SEPARATOR]
    places = sorted_places(text).tolist()
    assert sorted(places) == kept
    assert contexts(text, places) == sorted(contexts(text, kept))


@settings(max_examples=100, deadline=None)
@given(files=TEXTS)
def test_equals_a_plain_sort_where_numbers_have_no_room(files: list[list[int]]) -> None:
    text = text_of(files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_array, "_WORD_BITS", 12)
        patch.setattr(suffix_array, "_PIECE", 7)
        places = sorted_places(text).tolist()
    assert contexts(text, places) == sorted(contexts(text, places))
    assert len(places) == len(sorted_places(text))


def test_long_repetitions_are_told_apart_up_to_the_depth() -> None:
    text = text_of([[1] * 300, [1] * 100 + [2] * 100])
    places = sorted_places(text).tolist()
    assert contexts(text, places) == sorted(contexts(text, places))


def test_interrupted_at_any_round() -> None:
    text = text_of([[1, 2, 3] * 50])
    asked: list[bool] = []
    sorted_places(text, lambda: bool(asked.append(True)))
    assert len(asked) >= 3
    for n_rounds in range(len(asked)):
        answers = iter([False] * n_rounds + [True])
        with pytest.raises(SortInterruptedError):
            sorted_places(text, lambda answers=answers: next(answers))
