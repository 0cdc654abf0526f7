"""Samples of next edits: what was changed, what follows, and what counts."""

import random
import re

import pytest
from source_files import SPECIAL, decode, encode, source_file

from training.edit_samples import FORMAT, EditStream, Example, Examples, edit_sample, repeats_words
from training.samples import Mix

BEDS = """def fence_length(garden, margin):
    total: int = 0
    for bed in garden.beds:
        total += bed.width + margin
        total += bed.depth + margin
    return total


def whole_fence(gardens, margin):
    length: int = 0
    for garden in gardens:
        length += fence_length(garden, margin)
    report(fence_length(gardens[0], 0))
    return length


class Fence:
    length: int = 0
    price: int = 0
"""
PATHS = """def gravel_for(routes, thickness):
    volume = 0
    for route in routes:
        volume += route.surface * thickness
    return volume
"""
FILES = [
    source_file("garden/beds.py", BEDS, package="garden"),
    source_file("garden/paths.py", PATHS, package="garden"),
]
EARLIER = {("garden", "garden/beds.py"): BEDS.replace("margin", "border")}


def examples(seed: int = 0) -> Examples:
    return Examples(FILES, EARLIER, rng=random.Random(seed))


def drawn(kind: str, *, is_quiet: bool) -> list[Example]:
    source = examples()
    drawn = (source.draw(is_quiet=is_quiet) for _ in range(200))
    found = [one for one in drawn if one.kind == kind]
    assert found
    return found


def changed_words(old: str, new: str) -> set[tuple[str, str]]:
    was, now = (re.findall(r"\w+", text) for text in (old, new))
    return {(a, b) for a, b in zip(was, now, strict=True) if a != b}


def test_the_same_seed_draws_the_same():
    first, same, other = (
        [one.draw() for _ in range(5)] for one in (examples(1), examples(1), examples(2))
    )
    assert first == same
    assert first != other


@pytest.mark.parametrize("kind", ["released", "name", "type", "parameter"])
def test_a_change_was_made_and_what_follows_it_was_not(kind):
    for one in drawn(kind, is_quiet=False):
        assert one.old != one.new
        for change in one.source.changes:
            assert change.new in one.source.text
            assert change.old != change.new
            assert one.source.text.splitlines()[change.line] == change.new.splitlines()[0]


@pytest.mark.parametrize("kind", ["released", "name"])
def test_the_same_words_are_replaced_everywhere(kind):
    for one in drawn(kind, is_quiet=False):
        made = {
            pair for change in one.source.changes for pair in changed_words(change.old, change.new)
        }
        assert changed_words(one.old, one.new) <= made


def test_the_words_of_a_release_follow():
    for one in drawn("released", is_quiet=False):
        assert changed_words(one.old, one.new) == {("border", "margin")}


def test_a_type_follows_at_the_same_name():
    for one in drawn("type", is_quiet=False):
        (kind,) = {
            found
            for change in one.source.changes
            for found in re.findall(r"length: ([^ ]+) =", change.new)
        }
        assert set(re.findall(r"length: ([^ ]+) =", one.new)) == {kind}


def test_calls_get_an_argument_of_the_parameters_name():
    for one in drawn("parameter", is_quiet=False):
        (defined,) = one.source.changes[:1]
        (added,) = set(re.findall(r"\w+", defined.new)) - set(re.findall(r"\w+", defined.old))
        assert one.new.count(f", {added})") > one.old.count(f", {added})")


@pytest.mark.parametrize("kind", ["released", "name", "parameter"])
def test_nothing_follows_where_all_was_changed(kind):
    for one in drawn(kind, is_quiet=True):
        assert one.old == one.new
        assert one.source.changes


def test_a_third_is_quiet():
    source = examples()
    share = sum(source.draw().is_quiet for _ in range(600)) / 600
    assert 0.27 < share < 0.4


def test_a_sample_is_the_formats_prompt_and_the_new_region():
    one = drawn("name", is_quiet=False)[0]
    sample = edit_sample(one, SPECIAL, encode, 4.0)
    prompt = FORMAT.prompt(one.source, one.region).text.replace("<|file_sep|>", "<5>")
    assert decode(sample.tokens) == f"{prompt}{one.new}<0>"
    assert prompt.endswith(f"<5>updated/{one.source.path}\n")
    assert len(sample.tokens) == len(sample.targets) == len(sample.weights)


def test_tokens_that_change_and_the_end_count_most():
    one = drawn("name", is_quiet=False)[0]
    sample = edit_sample(one, SPECIAL, encode, 4.0)
    heavy = "".join(
        decode([target])
        for target, weight in zip(sample.targets, sample.weights, strict=True)
        if weight == 4.0
    )
    assert heavy.endswith("<0>")
    answer = sample.weights[-len(one.new) - 2 : -1]
    assert 1.0 in answer
    assert set(answer) == {1.0, 4.0}
    assert set(sample.weights) <= {0.0, 0.02, 1.0, 4.0}


def test_other_files_stand_first():
    source = examples()
    one = source.with_files(source.draw(), 30)
    shown = [path for path, _ in one.source.files]
    assert one.source.path not in shown
    text = FORMAT.prompt(one.source, one.region).text
    assert all(text.index(lines) < text.index("original/") for _, lines in one.source.files)


def test_rows_hold_samples_that_fit():
    stream = EditStream(FILES, EARLIER, special=SPECIAL, encode=encode, mix=Mix(), seed=3)
    rows = stream.rows(3000)
    for _ in range(5):
        row = next(rows)
        assert len(row.tokens) == len(row.targets) == len(row.weights) == 3000
        assert SPECIAL.end in row.tokens


def test_a_release_is_taken_where_it_repeats_replaced_words():
    assert repeats_words(EARLIER["garden", "garden/beds.py"], BEDS)
    assert not repeats_words(BEDS.replace("report(", "print("), BEDS)
    assert not repeats_words(BEDS, BEDS)
