"""The stream of samples: its mix, its rows, and context that helps."""

import itertools
import random

import pytest
from source_files import SPECIAL, decode, encode, source_file

from training.corpus import SourceFile
from training.samples import Mix, PackageIndex, SampleStream

SHAPES = '''class RoundShape:
    """A shape without corners."""

    def circumference_of(self, radius):
        return 2 * 3.14159 * radius
'''
USER = """from shapes import RoundShape


def fence_length(garden):
    shape = RoundShape()
    total = 0
    for bed in garden.beds:
        total = total + shape.circumference_of(bed.radius)
    return total
"""
OTHER = "def unrelated(words):\n    return [word.strip() for word in words]\n" * 4


def source(path: str, text: str) -> SourceFile:
    return source_file(path, text, package="garden")


FILES = [source("shapes.py", SHAPES), source("fence.py", USER), source("other.py", OTHER)]


def stream(seed: int = 0, **mix: float) -> SampleStream:
    return SampleStream(FILES, special=SPECIAL, encode=encode, mix=Mix(**mix), seed=seed)


def test_rows_are_full_and_of_one_length():
    for row in itertools.islice(stream().rows(900), 20):
        assert len(row.tokens) == len(row.targets) == len(row.weights) == 900


def test_the_same_seed_draws_the_same():
    first, second, other = (next(stream(seed).rows(900)).tokens for seed in (1, 1, 2))
    assert first == second != other


@pytest.mark.parametrize("anchored", [0.0, 1.0])
def test_prefix_typed_text_middle_and_suffix_are_those_of_a_file(anchored):
    drawn = stream(documents=0.0, repository=0.0, anchored=anchored)
    for _ in range(50):
        text = decode(drawn.sample(4000).tokens)
        head, rest = text.split("<1>")
        path = head.split("<5>")[1].strip()
        (file,) = (file for file in FILES if file.path == path)
        prefix, rest = rest.split("<3>")
        suffix, rest = rest.split("<2>")
        assert rest.endswith("<0>")
        assert prefix + rest.removesuffix("<0>") + suffix in file.text
        if anchored:
            assert not prefix or prefix.endswith("\n")


def test_context_defines_what_the_place_uses():
    index = PackageIndex(FILES)
    places = index.places_for("shape.circumference_of(bed.radius)", 1, random.Random(0))
    assert {index.files[place.file_idx].path for place in places} == {"shapes.py"}
    assert "def circumference_of" in index.window(places[0], 80)


def test_samples_with_context_name_other_files():
    drawn = stream(documents=0.0, repository=1.0)
    texts = [decode(drawn.sample(4000).tokens) for _ in range(60)]
    with_context = [text for text in texts if text.count("<5>") > 1]
    assert with_context
    for text in with_context:
        paths = [part.split("\n")[0] for part in text.split("<1>")[0].split("<5>")[1:]]
        assert len(set(paths)) == len(paths)


def test_the_mix_is_kept():
    drawn = stream(documents=0.5)
    texts = [decode(drawn.sample(800).tokens) for _ in range(200)]
    n_documents = sum("<2>" not in text for text in texts)
    assert 60 < n_documents < 140
