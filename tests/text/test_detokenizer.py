"""Characters split over tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.text.stopping import Utf8Detokenizer


@given(st.text(), st.data())
def test_text_equals_the_bytes_decoded_at_once(text, data):
    encoded = text.encode("utf-8", "surrogatepass") if _is_scalar(text) else b""
    n_cuts = data.draw(st.integers(0, 5))
    cuts = sorted(data.draw(st.integers(0, len(encoded))) for _ in range(n_cuts))
    detokenizer = Utf8Detokenizer()
    pieces = [encoded[a:b] for a, b in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    assert "".join(map(detokenizer.feed, pieces)) == encoded.decode("utf-8")
    assert not detokenizer.is_broken


def _is_scalar(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@given(st.binary(max_size=40))
def test_any_bytes_give_their_valid_start_and_no_replacement_character(data):
    detokenizer = Utf8Detokenizer()
    text = "".join(detokenizer.feed(bytes((byte,))) for byte in data)
    assert data.startswith(text.encode())
    assert detokenizer.is_broken == _is_invalid(data)


def _is_invalid(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        rest = data[error.start :]
        # Of a surrogate the decoder sees with its last byte that it is none.
        is_half_surrogate = len(rest) == 2 and rest[0] == 0xED and 0xA0 <= rest[1] <= 0xBF
        return error.reason != "unexpected end of data" and not is_half_surrogate
    return False


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        ([b"\xf0", b"\x9f", b"\x99", b"\x82"], ["", "", "", "🙂"]),
        ([b"a\xc3", b"\xa9b"], ["a", "éb"]),
        ([b"a\xc3"], ["a"]),
        ([b"a\xffb", b"c"], ["a", ""]),
        ([b"a\xc3", b"b"], ["a", ""]),
        ([b"\xed\xa0\x80"], [""]),
    ],
)
def test_characters_appear_with_their_last_byte(pieces, texts):
    detokenizer = Utf8Detokenizer()
    assert [detokenizer.feed(piece) for piece in pieces] == texts
