"""Prompts on the embedded model's vocabulary: budgets, and what typing leaves of a KV cache."""

import ast
import itertools
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclsp.errors import SettingsError
from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, renewed_chunks
from speclsp.prompt.families import family_for
from speclsp.prompt.prompt import PromptBudget, PromptLayout
from tests.support.prompts import build_prompt

SOURCE = Path(ast.__file__).read_text(encoding="utf-8")
BUDGET = PromptBudget(n_prompt=700)


def prompts_while_typing(vocabulary, source, start, n_chars, *, budget=BUDGET, layout="anchored"):
    """One prompt per keystroke of ``source[start : start + n_chars]``; the rest stays behind."""
    family = family_for(vocabulary, "")
    excerpt = None
    for end in range(start, start + n_chars + 1):
        prompt = build_prompt(
            family,
            vocabulary,
            prefix=source[:end],
            suffix=source[start + n_chars :],
            budget=budget,
            excerpt=excerpt,
            layout=layout,
        )
        excerpt = prompt.excerpt
        yield source[:end], prompt


def n_evaluated(before, after):
    """Tokens that a cache of the longest common prefix leaves to evaluate, one at the least."""
    n_common = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        n_common += 1
    return max(1, len(after) - n_common)


@pytest.mark.parametrize("start", [20_000, 30_000, 40_000])
def test_a_keystroke_evaluates_a_few_tokens_only(vocabulary, start):
    typed = list(prompts_while_typing(vocabulary, SOURCE, start, 300))
    within, at_line_start = [], []
    for (_, before), (text, after) in itertools.pairwise(typed):
        counts = at_line_start if text.endswith("\n") else within
        counts.append(n_evaluated(before.tokens, after.tokens))
    assert len(within) > 250
    # Neither prefix nor suffix: at most the token that the character has changed, and its
    # neighbour.  Were the typed text before the suffix, each would cost the suffix's tokens.
    assert max(within) <= 4
    assert mean(within) < 1.6
    assert median(within) == 1
    # A new line costs no more, unless the anchor has to move.
    n_moved = sum(
        a.excerpt.anchor != b.excerpt.anchor for (_, a), (_, b) in itertools.pairwise(typed)
    )
    assert n_moved <= 1
    assert sum(count > 4 for count in at_line_start) <= n_moved


def test_plain_layout_evaluates_the_suffix_at_each_keystroke(vocabulary):
    typed = list(prompts_while_typing(vocabulary, SOURCE, 20_000, 60, layout="plain"))
    assert {prompt.n_middle for _, prompt in typed} == {0}
    n_suffix = typed[0][1].n_suffix
    assert n_suffix > 100
    counts = [n_evaluated(a.tokens, b.tokens) for (_, a), (_, b) in itertools.pairwise(typed)]
    assert min(counts) > n_suffix
    assert all(text.endswith(shown_before(vocabulary, prompt)) for text, prompt in typed)


def shown_before(vocabulary, prompt):
    """The text before the cursor that a prompt shows."""
    return prompt.excerpt.prefix.text


def test_suffix_first_order_keeps_the_suffix_over_new_lines(load_model):
    vocabulary = load_model("codestral")
    source = "x = f(1)\n" * 60
    typed = list(prompts_while_typing(vocabulary, source, 180, 90))
    counts = [n_evaluated(a.tokens, b.tokens) for (_, a), (_, b) in itertools.pairwise(typed)]
    assert typed[0][1].n_suffix > 100
    assert max(counts) <= 6


def test_prompt_holds_what_stands_around_the_cursor(vocabulary):
    text, prompt = next(prompts_while_typing(vocabulary, SOURCE, 20_000, 0))
    shown = b"".join(vocabulary.piece(token) for token in prompt.tokens).decode()
    names = "demo\npkg/mod.py\n"
    anchor = prompt.excerpt.anchor
    assert SOURCE[anchor - 1] == "\n"
    assert 1 <= text.count("\n", anchor) <= 3
    before = text[len(text) - prompt.n_prefix_chars : anchor]
    after = SOURCE[len(text) :][: prompt.n_suffix_chars]
    assert shown == names + before + after + text[anchor:]
    assert len(prompt.tokens) <= 700
    assert len(prompt.tokens) > 450


def test_one_megabyte_line_is_bounded_and_keeps_still(vocabulary):
    source = "a=b;" * 250_000
    typed = list(prompts_while_typing(vocabulary, source, 500_000, 40))
    assert all(len(prompt.tokens) <= 700 for _, prompt in typed)
    counts = [n_evaluated(a.tokens, b.tokens) for (_, a), (_, b) in itertools.pairwise(typed)]
    assert max(counts) <= 4
    assert typed[0][1].n_middle > 40
    assert typed[0][1].n_prefix > 100


def test_room_that_the_suffix_leaves_goes_to_the_prefix(vocabulary):
    family = family_for(vocabulary, "")
    prompt = build_prompt(family, vocabulary, prefix=SOURCE[:20_000], budget=BUDGET)
    assert prompt.n_prefix + prompt.n_middle > 400


def test_an_excerpt_of_another_model_is_not_taken(vocabulary, load_model):
    _, prompt = next(prompts_while_typing(vocabulary, SOURCE, 5_000, 0))
    other = load_model("generic")
    arguments = {"prefix": SOURCE[:5_000], "suffix": SOURCE[5_000:], "budget": BUDGET}
    family = family_for(other, "")
    fresh = build_prompt(family, other, **arguments)
    assert build_prompt(family, other, **arguments, excerpt=prompt.excerpt) == fresh


@pytest.mark.parametrize("path", ["d/" * 2000 + "f.py", "🙂" * 500, ""])
def test_long_names_are_cut(vocabulary, path):
    prompt = build_prompt(
        family_for(vocabulary, ""),
        vocabulary,
        repo_name="r" * 5000,
        path=path,
        prefix="x = 1\ny = ",
        suffix="\n",
        budget=PromptBudget(n_prompt=64),
    )
    assert len(prompt.tokens) <= 64
    assert prompt.n_prefix > 0
    assert prompt.n_middle > 0


def test_too_small_a_budget_is_an_error(vocabulary):
    budget = PromptBudget(n_prompt=4)
    with pytest.raises(SettingsError) as caught:
        build_prompt(family_for(vocabulary, ""), vocabulary, prefix="x", budget=budget)
    assert "n_prompt = 4" in caught.value.message
    assert "ctx_size" in caught.value.remedy


def test_chunks_take_half_of_the_prompt_at_most(vocabulary):
    chunks = [
        ContextChunk(path="other.py", text="value = compute(1, 2, 3)\n" * 10, key=str(n))
        for n in range(20)
    ]
    layout = PromptLayout(
        family=family_for(vocabulary, ""), vocabulary=vocabulary, layout="anchored"
    )
    prompt = build_prompt(
        family_for(vocabulary, ""),
        vocabulary,
        prefix=SOURCE[:8_000],
        suffix=SOURCE[8_000:],
        budget=replace(BUDGET, n_chunks=350),
        chunks=renewed_chunks(NO_CHUNKS, chunks, 10_000, layout.encode_chunk),
    )
    shown = b"".join(vocabulary.piece(token) for token in prompt.tokens).decode()
    assert 2 <= shown.count("other.py\n") < 20
    assert len(prompt.tokens) <= 700
    assert prompt.n_prefix > 100


TEXTS = st.text(st.sampled_from("ab (){}:=\n\r\t1.é🙂𝒳\ud800"), max_size=300)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_prompt_never_exceeds_its_budget(vocabulary, data):
    family = family_for(vocabulary, "")
    layout = data.draw(st.sampled_from(["anchored", "plain"]))
    excerpt = None
    prefix, suffix = data.draw(TEXTS), data.draw(TEXTS)
    for _ in range(data.draw(st.integers(1, 4))):
        budget = PromptBudget(n_prompt=data.draw(st.integers(16, 200)))
        prompt = build_prompt(
            family,
            vocabulary,
            repo_name=data.draw(st.sampled_from(["", "demo", "<|fim_middle|>", "é" * 90])),
            path=data.draw(st.sampled_from(["", "a.py", "🙂/" * 90, "x\n\ry"])),
            prefix=prefix,
            suffix=suffix,
            budget=budget,
            excerpt=excerpt,
            layout=layout,
        )
        excerpt = prompt.excerpt
        assert len(prompt.tokens) <= budget.n_prompt
        # A few keystrokes, or the cursor jumps.
        prefix += data.draw(TEXTS)
        if data.draw(st.booleans()):
            cut = data.draw(st.integers(0, len(prefix)))
            prefix, suffix = prefix[:cut], prefix[cut:] + suffix
