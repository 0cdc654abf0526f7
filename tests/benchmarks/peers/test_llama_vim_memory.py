"""What llama.vim finds again among the answers that it had."""

import pytest

from benchmarks.peers.llama_vim import N_CHARS_BACK, N_REMEMBERED, VimMemory, key_of, keys_of
from benchmarks.peers.vim_buffer import LocalContext, local_context, vim_buffer


def context(before: str, after: str = "\n") -> LocalContext:
    return local_context(vim_buffer("file.py", before, after))


@pytest.fixture
def memory():
    return VimMemory()


def test_an_answer_is_found_at_its_own_place_alone(memory):
    memory.remember(keys_of(context("x = ")), "f()")
    assert memory.get(key_of(context("x = "))) == "f()"
    assert memory.get(key_of(context("y = "))) is None
    assert memory.get(key_of(context("x = ", "\nelse\n"))) is None


def test_up_to_three_first_lines_may_be_missing(memory):
    memory.remember(keys_of(context("a\nb\nc\nd\nx = ")), "f()")
    found = [memory.get(key_of(context(f"{before}x = "))) for before in ("b\nc\nd\n", "d\n", "")]
    assert found == ["f()", "f()", None]


def test_what_is_typed_of_an_answer_leaves_its_rest(memory):
    memory.remember(keys_of(context("x = ")), "func(a)")
    assert memory.typed_through(context("x = fu")) == "nc(a)"
    assert memory.typed_through(context("x = fo")) is None
    assert memory.typed_through(context("x = func(a)")) is None


def test_over_a_line_end_too(memory):
    memory.remember(keys_of(context("a\nif x")), ":\n    return 1")
    assert memory.typed_through(context("a\nif x:\n    re")) == "turn 1"
    # A blank line counts as not begun.
    assert memory.typed_through(context("a\nif x:\n    ")) == "    return 1"


def test_the_longest_rest_wins(memory):
    memory.remember(keys_of(context("x")), "abc")
    memory.remember(keys_of(context("xa")), "bcdef")
    assert memory.typed_through(context("xab")) == "cdef"


def test_answers_further_back_are_not_looked_at(memory):
    answer = "y" * 200
    memory.remember(keys_of(context("x")), answer)
    assert memory.typed_through(context("x" + "y" * N_CHARS_BACK)) == "y" * (200 - N_CHARS_BACK)
    assert memory.typed_through(context("x" + "y" * (N_CHARS_BACK + 1))) is None


def test_the_answer_used_longest_ago_goes_first(memory):
    for n in range(N_REMEMBERED):
        memory.remember([key_of(context(f"x{n}"))], str(n))
    assert memory.get(key_of(context("x0"))) == "0"
    memory.remember([key_of(context("new"))], "new")
    assert len(memory) == N_REMEMBERED
    assert memory.get(key_of(context("x0"))) == "0"
    assert memory.get(key_of(context("x1"))) is None
