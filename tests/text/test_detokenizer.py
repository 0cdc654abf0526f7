"""Characters split over tokens."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclsp.text.stopping import CompletionText


def fed(rules_at, byte_vocabulary, pieces):
    """Return the completion and what it held after each piece."""
    text = CompletionText(byte_vocabulary(tuple(pieces)), rules_at("x = ▮"))
    grown = []
    for n in range(len(pieces)):
        text.feed(257 + n)
        grown.append(text.so_far)
    return text, grown


@given(
    st.text(
        st.characters(
            exclude_categories=("Cs", "Zs", "Cc", "Cf", "Zl", "Zp"),
            exclude_characters="<",  # begins names of special tokens
        ),
        max_size=30,
    ),
    st.data(),
)
def test_text_equals_the_bytes_decoded_at_once(rules_at, byte_vocabulary, text, data):
    encoded = text.encode("utf-8")
    n_cuts = data.draw(st.integers(0, 5))
    cuts = sorted(data.draw(st.integers(0, len(encoded))) for _ in range(n_cuts))
    pieces = [encoded[a:b] for a, b in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    grown, _ = fed(rules_at, byte_vocabulary, pieces)
    assert grown.so_far == text
    assert grown.stopped_by is None


@given(st.binary(max_size=40))
def test_any_bytes_give_their_valid_start_and_no_replacement_character(
    rules_at, byte_vocabulary, data
):
    grown, _ = fed(rules_at, byte_vocabulary, [bytes((byte,)) for byte in data])
    seen = data.replace(b"\r", b"")
    assert seen.startswith(grown.so_far.encode())
    if grown.stopped_by == "bytes":
        following = seen.removeprefix(grown.so_far.encode()).decode("utf-8", "replace")[0]
        assert following == "\ufffd" or unicodedata.category(following) in ("Cc", "Cf")


@pytest.mark.parametrize(
    ("pieces", "texts", "stopped_by"),
    [
        ([b"\xf0", b"\x9f", b"\x99", b"\x82"], ["", "", "", "🙂"], None),
        ([b"a\xc3", b"\xa9b"], ["a", "aéb"], None),
        ([b"a\xc3"], ["a"], None),
        ([b"a\xffb", b"c"], ["a", "a"], "bytes"),
        ([b"a\xc3", b"b"], ["a", "a"], "bytes"),
        ([b"\xed\xa0\x80"], [""], "bytes"),
    ],
)
def test_characters_appear_with_their_last_byte(
    rules_at, byte_vocabulary, pieces, texts, stopped_by
):
    text, grown = fed(rules_at, byte_vocabulary, pieces)
    assert grown == texts
    assert (text.finish().text, text.stopped_by) == (texts[-1], stopped_by)
