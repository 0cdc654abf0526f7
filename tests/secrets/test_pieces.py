"""The pieces of secrets by which texts that hold part of one are found."""

import random
import string

import pytest

from speclsp.secrets.pieces import Pieces, clipped
from tests.support.secret_prefixes import n_shown


def test_eight_characters_in_a_row_are_found_and_seven_are_not():
    pieces = Pieces(["_hunter2Xy9_", "Kq83"])
    for text in ("x = 'hunter2X'", "_hunter2", "2Xy9_hunter2Xy", "(Kq83)"):
        assert pieces.are_in(text), text
    for text in ("hunter2", "2Xy9_", "hunter-2Xy9", "Kq8", ""):
        assert not pieces.are_in(text), text
    assert not Pieces(["abc"])  # which stands in any text
    assert not Pieces(["abc"]).are_in("abcabc")


@pytest.mark.parametrize("n_letters", [9, 40, 300])
def test_few_pieces_and_many_are_found_alike(n_letters):
    draw = random.Random(n_letters)
    secret = "".join(draw.choices(string.ascii_letters, k=n_letters))
    for _ in range(200):
        start = draw.randrange(n_letters)
        text = "ab" + secret[start : start + draw.randint(5, 11)] + "yz"
        assert Pieces([secret]).are_in(text) == (n_shown(secret, text) >= 8)


@pytest.mark.parametrize("sizes", [[20, 3, 0, 9], [200_000], [60_000, 50_000, 70], [9] * 20_000])
def test_clipped_secrets_are_bounded_and_have_the_same_pieces(sizes):
    secrets = [chr(97 + n % 26) * size for n, size in enumerate(sizes)]
    kept = clipped(secrets)
    assert sum(map(len, kept)) <= 210_000
    for text in ("aaaaaaaaaa", "zzzzzzzz", "dddddddd", "a", "9"):
        assert Pieces(kept).are_in(text) == Pieces(secrets).are_in(text)


def test_the_places_of_pieces_are_whole():
    assert Pieces(["hunter2Xy9", "Kq83"]).ranges_in("a hunter2Xy9 unter2Xy Kq83") == (
        (2, 12), (13, 21), (22, 26),
    )  # fmt: skip


def test_of_very_long_secrets_every_text_holds_a_piece():
    pieces = Pieces(["x" * 200_000])
    assert pieces.are_in("y")
    assert not pieces.are_in("")
    assert pieces.ranges_in("yy") == ((0, 2),)
