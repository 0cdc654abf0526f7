"""A damaged statistics file is refused with its place and a remedy, or holds what it may hold.

``make damaged`` tries 2,000 damages of each layout, the tests a sample.
"""

import io
import os
import random

import numpy as np
import pytest
from damaged_bytes import WORDS, damaged

from speclsp.errors import StoreError
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import open_statistics, write

N_CASES = 2000 // int(os.environ.get("SPECLSP_DAMAGED_STEP", "40"))
SEED = os.environ.get("SPECLSP_DAMAGED_SEED", "1")
NUMBERS = (-1, 0, 1, 2, 3, 1000, 2**31, 2**53, 2**63, 2**64, 1.5, None, "x", [], {})


class Vocabulary:
    n_tokens = 1000
    fingerprint = "0123456789abcdef"


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """A whole file of each layout."""
    path = tmp_path_factory.mktemp("whole") / "f"
    tokens = np.random.default_rng(1).integers(0, 1000, 4000).astype(np.int32)
    tables = count_tokens([tokens], [1, 2, 3, 4])
    found = {}
    for layout in ("speclsp", "llama.cpp"):
        write(path, tables.by_order, layout, Vocabulary())  # type: ignore[arg-type]
        found[layout] = path.read_bytes()
    return found


def damaged_and_signed(data: bytes, dice: random.Random) -> bytes:
    """Damage the numbers, sizes and types of speclsp's layout; their checksums are right again."""
    arrays = dict(np.load(io.BytesIO(data)))
    for _ in range(dice.choice([1, 1, 2, 5])):
        name = dice.choice(sorted(arrays))
        array = arrays[name]
        match dice.randrange(5):
            case 0 if array.dtype.kind in "iu" and array.size:
                for _ in range(dice.choice([1, 10, 1000])):
                    array.reshape(-1).view(np.int32)[dice.randrange(array.size)] = dice.choice(
                        WORDS
                    )
            case 1:
                arrays[name] = np.array(dice.choice(NUMBERS))
            case 2:
                arrays[name] = array.reshape(-1)[: dice.randrange(array.size + 1)]
            case 3:
                kind = dice.choice(["<i8", ">i4", "<f8", "U3", "?", "V4"])
                arrays[name] = np.zeros(array.shape, kind)
            case 4:
                del arrays[name]
                arrays[dice.choice(["grams_x", "grams_-1", "grams_2", "more"])] = array
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("layout", "damage"),
    [("speclsp", damaged), ("speclsp", damaged_and_signed), ("llama.cpp", damaged)],
    ids=["speclsp", "speclsp-signed", "llama.cpp"],
)
def test_a_damaged_file_is_refused_or_read(contents, tmp_path, layout, damage):
    path = tmp_path / "f"
    refusals: list[StoreError] = []
    for number in range(N_CASES):
        content = damage(contents[layout], random.Random(f"{SEED} {number}"))  # type: ignore[operator]
        path.write_bytes(content)
        try:
            tables = open_statistics(path, Vocabulary()).tables
        except StoreError as error:
            refusals.append(error)
            continue
        for order, table in tables.by_order.items():
            for gram in table.grams[:: max(1, len(table.grams) // 50)].tolist():
                found = tables.followers(tuple(gram))
                assert len(gram) == order
                assert all(0 <= token < 1000 for token in found), number
                assert all(count >= 1 for count in found.values()), number
    print(layout, damage.__name__, f"{len(refusals)} of {N_CASES} refused")  # type: ignore[attr-defined]  # noqa: T201 - figures
    assert refusals
    assert all(str(path) in refusal.message and refusal.remedy for refusal in refusals)
