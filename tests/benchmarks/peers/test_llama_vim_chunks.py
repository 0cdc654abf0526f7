"""The ring of chunks."""

import random

import pytest

from benchmarks.peers.llama_vim import CHUNK_LINES, N_CHUNKS, ChunkRing, similarity
from benchmarks.peers.vim_buffer import vim_buffer


def ring() -> ChunkRing:
    return ChunkRing(random.Random(0))


def words(first: int, n_lines: int) -> list[str]:
    return [f"word{n} = other{n}" for n in range(first, first + n_lines)]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([], [], 1.0),
        (["a b"], ["c d"], 0.0),
        (["a b"], ["b, a"], 1.0),
        (["a b c"], ["a d e"], 1 / 3),
        (["a b"], ["a a a a"], 4 / 3),
    ],
)
def test_similarity_counts_common_words(one, other, expected):
    assert similarity(one, other) == pytest.approx(expected)


def test_a_few_lines_are_no_chunk_and_a_short_text_is_a_whole_one():
    chunks = ring()
    chunks.pick("a.py", words(0, 2), evicts=True)
    assert chunks.n_queued == 0
    chunks.pick("a.py", words(0, 3), evicts=True)
    assert chunks.advance()
    assert not chunks.advance()
    assert [(chunk.file, chunk.lines) for chunk in chunks.chunks] == [("a.py", tuple(words(0, 3)))]
    assert chunks.chunks[0].text == "word0 = other0\nword1 = other1\nword2 = other2\n"


def test_of_a_long_text_33_lines_in_a_row_are_taken():
    chunks, lines = ring(), words(0, 300)
    chunks.pick("a.py", lines, evicts=True)
    chunks.advance()
    (chunk,) = chunks.chunks
    first = lines.index(chunk.lines[0])
    assert list(chunk.lines) == lines[first : first + CHUNK_LINES // 2 + 1]
    assert len(chunk.lines) == 33


def test_a_chunk_that_is_there_is_not_taken_twice():
    chunks = ring()
    chunks.pick("a.py", words(0, 5), evicts=True)
    chunks.advance()
    chunks.pick("b.py", words(0, 5), evicts=True)
    assert (chunks.n_queued, chunks.n_evicted) == (0, 0)


def test_a_very_similar_chunk_replaces_or_is_not_taken():
    chunks = ring()
    chunks.pick("a.py", words(0, 40), evicts=True)
    chunks.advance()
    chunks.pick("a.py", words(1, 40), evicts=False)
    assert (chunks.n_queued, len(chunks.chunks)) == (0, 1)
    chunks.pick("a.py", words(1, 40), evicts=True)
    assert (chunks.n_queued, len(chunks.chunks), chunks.n_evicted) == (1, 0, 1)


def test_ring_and_queue_hold_sixteen_each_and_drop_the_oldest():
    chunks = ring()
    for n in range(20):
        chunks.pick(f"{n}.py", words(100 * n, 5), evicts=True)
    assert chunks.n_queued == 16
    for _ in range(16):
        assert chunks.advance()
    chunks.pick("new.py", words(9000, 5), evicts=True)
    assert chunks.advance()
    files = [chunk.file for chunk in chunks.chunks]
    assert len(files) == N_CHUNKS
    assert (files[0], files[-1]) == ("5.py", "new.py")


def test_chunks_like_the_text_at_the_cursor_go():
    chunks = ring()
    chunks.pick("a.py", words(0, 20), evicts=True)
    chunks.pick("b.py", words(500, 20), evicts=True)
    chunks.advance()
    chunks.advance()
    chunks.evict_like(vim_buffer("c.py", "\n".join(words(0, 25)), "\n"))
    assert [chunk.file for chunk in chunks.chunks] == ["b.py"]


def test_beyond_the_request_chunks_are_picked_once_per_32_lines():
    chunks, lines = ring(), words(0, 1000)

    def at(row):
        return vim_buffer("a.py", "\n".join(lines[: row + 1]), "\n" + "\n".join(lines[row + 1 :]))

    chunks.pick_beyond(at(500))
    assert chunks.n_queued == 2
    while chunks.advance():
        pass
    before, after = (lines.index(chunk.lines[0]) for chunk in chunks.chunks)
    assert before + 33 <= 501 - 256
    assert after >= 500 + 64
    chunks.pick_beyond(at(532))
    assert chunks.n_queued == 0
    chunks.pick_beyond(at(533))
    assert chunks.n_queued >= 1
