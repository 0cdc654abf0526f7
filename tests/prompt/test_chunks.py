"""Context chunks keep their order, and go once, many together, when there are too many."""

from hypothesis import given
from hypothesis import strategies as st

from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, Reason, renewed_chunks, shown_chunks


def chunk(
    key: str, n_tokens: int = 10, text: str = "", reason: Reason = "definition"
) -> ContextChunk:
    return ContextChunk(path=f"{key}.py", text=text or key * n_tokens, key=key, reason=reason)


def encode(chunk: ContextChunk) -> tuple[int, ...]:
    return tuple(map(ord, chunk.text))


def keys(shown) -> str:
    return "".join(laid_out.chunk.key for laid_out in shown.chunks)


def renewed(shown, *chunks: ContextChunk, n_tokens_max: int = 50):
    return renewed_chunks(shown, chunks, n_tokens_max, encode)


def test_the_best_stands_last_but_for_edits():
    shown = renewed(NO_CHUNKS, chunk("a"), chunk("b"), chunk("c", reason="edit"))
    assert keys(shown) == "bac"
    assert shown.tokens == tuple(map(ord, "b" * 10 + "a" * 10 + "c" * 10))


def test_new_chunks_are_appended_whatever_their_rank():
    shown = renewed(NO_CHUNKS, chunk("a"), chunk("b"))
    shown = renewed(shown, chunk("c"), chunk("b"), chunk("a"))
    assert keys(shown) == "bac"
    # What is ranked no more does no harm and stays.
    assert keys(renewed(shown, chunk("d"))) == "bacd"


def test_nothing_changes_where_nothing_new_is_ranked():
    shown = renewed(NO_CHUNKS, chunk("a"), chunk("b"))
    assert renewed(shown, chunk("b"), chunk("a")) == shown
    assert renewed(shown) == shown


def test_a_newer_version_takes_the_older_ones_place_at_the_end():
    shown = renewed(NO_CHUNKS, chunk("a"), chunk("b"))
    shown = renewed(shown, chunk("b", text="newer"), chunk("a"))
    assert keys(shown) == "ab"
    assert shown.chunks[-1].chunk.text == "newer"


def test_too_many_go_once_down_to_the_lower_mark():
    shown = NO_CHUNKS
    sizes, n_reordered = [], 0
    for n in range(30):
        ranked = [chunk(chr(ord("a") + i % 26)) for i in range(n, max(-1, n - 5), -1)]
        before = keys(shown)
        shown = renewed(shown, *ranked)
        n_reordered += not keys(shown).startswith(before)
        sizes.append(shown.n_tokens)
    assert max(sizes) <= 50
    # Three quarters of fifty are three chunks, and two more fit then: every second time.
    assert n_reordered == 13
    assert keys(shown)[-1] == chr(ord("a") + 29 % 26)


def test_what_is_ranked_no_more_goes_before_the_lowest_ranked():
    shown = renewed(NO_CHUNKS, *map(chunk, "abcde"))
    assert keys(shown) == "edcba"
    shown = renewed(shown, chunk("f"), chunk("e"), chunk("d"))
    assert keys(shown) == "edf"


def test_a_chunk_larger_than_the_budget_is_left_out():
    shown = renewed(NO_CHUNKS, chunk("a", 60), chunk("b"))
    assert keys(shown) == "b"


def test_what_must_not_be_shown_is_taken_out():
    shown = renewed(NO_CHUNKS, *map(chunk, "abc"))
    assert keys(shown_chunks(shown, lambda path: path != "b.py")) == "ca"
    assert shown_chunks(shown, lambda path: path != "x.py") == shown


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 30)), max_size=8), max_size=8
    )
)
def test_never_more_than_the_budget_and_each_place_once(rounds):
    shown = NO_CHUNKS
    for ranked in rounds:
        shown = renewed(shown, *(chunk(key, n) for key, n in ranked))
        assert shown.n_tokens <= 50
        assert len(set(keys(shown))) == len(keys(shown))
