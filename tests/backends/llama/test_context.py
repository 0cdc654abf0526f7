"""The KV cache and the batch of a real context."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_cpp import llama_cpp as llama
from margins import EPSILON, greedy_margin
from quiet_loading import quiet_target
from waiting import until

from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.fit import MAX_OUTPUTS
from speclsp.errors import (
    DecodeError,
    DecodeInterruptedError,
    EngineUnavailableError,
    ModelLoadError,
    NoRoomError,
)

SOURCE = Path(__file__).read_text(encoding="utf-8")


@pytest.fixture
def load(closed):
    return lambda path, **changes: closed(quiet_target(path, **{"fit": False, **changes}))


@pytest.fixture
def target(target_f16):
    target_f16.set_interrupt(None)
    target_f16.truncate(0)
    return target_f16


@pytest.fixture(scope="module")
def tokens(vocabulary):
    found = vocabulary.tokenize(SOURCE).tolist()
    assert len(found) > 1200
    return found


def held_positions(target: LlamaTarget) -> tuple[int, int]:
    """First and last position in llama.cpp's own cache; (-1, -1) for none."""
    memory = llama.llama_get_memory(target._context)
    return (llama.llama_memory_seq_pos_min(memory, 0), llama.llama_memory_seq_pos_max(memory, 0))


def test_facts_of_the_embedded_model(target):
    assert target.n_ctx == target.model.n_ctx_train == 2048
    assert (target.n_batch, target.n_ubatch, target.n_vocab) == (2048, 128, 4096)
    assert target.model.layers == {"CPU": 7}
    assert "qwen2" in target.model.description
    assert target.supports_rollback
    assert target.model.size > 5_000_000


def test_whole_and_chunked_decodes_agree(target, tokens):
    prompt = tokens[:100]
    whole = target.decode(prompt, 100).copy()
    assert whole.shape == (100, 4096)
    assert list(target.cached) == prompt
    target.truncate(0)
    assert list(target.cached) == []
    rows = []
    for start, n_tokens in ((0, 37), (37, 1), (38, 1), (39, 61)):
        rows.append(target.decode(prompt[start : start + n_tokens], n_tokens).copy())
    chunked = np.concatenate(rows)
    assert np.abs(chunked - whole).max() < EPSILON["f16"]
    is_clear = np.array([greedy_margin(row) for row in whole]) > EPSILON["f16"]
    assert is_clear.mean() > 0.9
    assert (chunked.argmax(axis=1) == whole.argmax(axis=1))[is_clear].all()


def test_batches_are_padded_to_whole_groups_of_rows(target, tokens, monkeypatch):
    def decode(start, n_tokens, n_logits):
        target.truncate(start)
        logits = target.decode(tokens[start : start + n_tokens], n_logits).copy()
        assert held_positions(target) == (0, start + n_tokens - 1)
        assert target.cached == tokens[: start + n_tokens]
        return logits, target._batch.native.n_tokens

    decode(0, 30, 0)
    for n_tokens, n_padded in ((1, 1), (3, 3), (4, 4), (5, 8), (7, 8), (8, 8), (9, 12)):
        for n_logits in (1, n_tokens):
            padded, n_decoded = decode(30, n_tokens, n_logits)
            assert n_decoded == n_padded
            with monkeypatch.context() as patched:
                patched.setattr(target, "batch_sizes", ())
                alone, n_decoded = decode(30, n_tokens, n_logits)
                assert n_decoded == n_tokens
            assert padded.shape == alone.shape
            assert np.abs(padded - alone).max() < 0.02
    # Where the context has no room for it, there is no padding.
    decode(0, 2000, 0)
    assert decode(2000, 43, 1)[1] == 44
    assert decode(2043, 5, 1)[1] == 5


def test_batches_of_one_size_reuse_their_graph(target, tokens, monkeypatch):
    def reused(*sizes):
        """Return how many of some passes, each behind 30 tokens, reuse the graph of the last."""
        target.truncate(0)
        target.decode(tokens[:30], 0)
        before = target.n_graphs_reused
        for size in sizes:
            target.truncate(30)
            target.decode(tokens[30 : 30 + size], size)
        return target.n_graphs_reused - before

    assert reused(1, 1, 1) == 2
    assert reused(5, 1, 6, 1, 7) == 0
    monkeypatch.setattr(target, "batch_sizes", (8, 16))
    assert reused(5, 1, 6, 1, 7) == 4
    assert reused(8, 9, 16, 17) == 1


def test_only_the_last_rows_come_and_in_order(target, tokens):
    whole = target.decode(tokens[:20], 20).copy()
    for n_logits in (0, 1, 7, 20):
        target.truncate(0)
        logits = target.decode(tokens[:20], n_logits)
        assert logits.shape == (n_logits, 4096)
        # Another kernel multiplies one row with the output layer than several: 0.0005, and 0.
        most = 1e-3 if n_logits == 1 else 1e-4
        assert np.allclose(logits, whole[20 - n_logits :], atol=most)


def test_logits_are_a_view_of_llama_cpp_s_memory(target, tokens):
    logits = target.decode(tokens[:4], 2)
    pointer = llama.llama_get_logits(target._context)
    address = np.ctypeslib.as_array(pointer, (1,)).ctypes.data
    assert logits.ctypes.data == address
    assert logits.dtype == np.float32


def test_truncate_and_decode_again_is_the_same(target, tokens):
    target.decode(tokens[:50], 0)
    first = target.decode(tokens[50:60], 10).copy()
    target.truncate(55)
    assert list(target.cached) == tokens[:55]
    target.decode(tokens[200:220], 0)
    target.truncate(50)
    again = target.decode(tokens[50:60], 10)
    assert np.array_equal(first, again)
    target.truncate(1000)
    assert list(target.cached) == tokens[:60]


@given(data=st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_bookkeeping_agrees_with_llama_cpp(target, tokens, data):
    target.truncate(0)
    expected: list[int] = []
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, 1000))
            piece = tokens[start : start + data.draw(st.integers(1, 40))]
            target.decode(piece, data.draw(st.integers(0, len(piece))))
            expected += piece
        else:
            n_kept = data.draw(st.integers(0, len(expected) + 3))
            target.truncate(n_kept)
            del expected[n_kept:]
        assert list(target.cached) == expected
        held = (0, len(expected) - 1) if expected else (-1, -1)
        assert held_positions(target) == held


def test_what_does_not_fit_is_refused_and_changes_nothing(target, tokens):
    target.decode(tokens[:10], 0)
    too_many_rows = ([1] * 200, MAX_OUTPUTS + 1)
    for piece, n_logits in (
        ([], 0),
        (tokens[:5], 6),
        (tokens[:5], -1),
        ([1] * 2039, 0),
        too_many_rows,
    ):
        with pytest.raises(ValueError, match="tokens"):
            target.decode(piece, n_logits)
    assert list(target.cached) == tokens[:10]
    assert held_positions(target) == (0, 9)


def test_the_context_can_be_filled_to_its_last_position(target, tokens):
    prompt = (tokens * 2)[:2048]
    target.decode(prompt[:1024], 0)
    target.decode(prompt[1024:], 1)
    assert len(target.cached) == target.n_ctx
    with pytest.raises(ValueError, match="context of 2048"):
        target.decode([1], 1)
    target.truncate(2047)
    assert target.decode(prompt[-1:], 1).shape == (1, 4096)


@pytest.mark.parametrize("token", [-1, 4096, 2**31 - 1])
def test_a_failed_decode_empties_the_cache(target, tokens, token):
    reference = target.decode(tokens[:10], 1).copy()
    with pytest.raises(DecodeError, match="batch is not valid") as caught:
        target.decode([1, token], 1)
    assert not isinstance(caught.value, DecodeInterruptedError)
    assert list(target.cached) == []
    assert held_positions(target) == (-1, -1)
    assert np.array_equal(target.decode(tokens[:10], 1), reference)


def wait_for_interrupt(target: LlamaTarget) -> None:
    until(lambda: target._interrupt._text.raw[0])


def test_an_interrupted_decode_leaves_the_cache_as_it_was(target, tokens):
    reference = target.decode(tokens[:30], 10).copy()
    target.truncate(20)
    target.set_interrupt(lambda: True)
    wait_for_interrupt(target)
    for piece, n_logits in (
        (tokens[20:30], 10),
        (tokens[20:820], 0),
        (tokens[20:820], MAX_OUTPUTS),
    ):
        with pytest.raises(DecodeInterruptedError):
            target.decode(piece, n_logits)
        assert list(target.cached) == tokens[:20]
        assert held_positions(target) == (0, 19)
    target.set_interrupt(None)
    assert np.array_equal(target.decode(tokens[20:30], 10), reference)


def test_a_batch_without_room_leaves_the_cache_as_it_was(target, tokens, monkeypatch):
    reference = target.decode(tokens[:30], 10).copy()
    target.truncate(20)
    with monkeypatch.context() as patch:
        patch.setattr(llama, "llama_decode", lambda *_: 1)
        with pytest.raises(NoRoomError, match="the KV cache has no room"):
            target.decode(tokens[20:30], 10)
        with pytest.raises(NoRoomError):
            target.decode_tree(tokens[20:21], [5, 6], [-1, -1])
    assert list(target.cached) == tokens[:20]
    assert held_positions(target) == (0, 19)
    assert np.array_equal(target.decode(tokens[20:30], 10), reference)


def test_chunks_shrink_when_they_are_stopped_and_grow_again(load, model_folder, tokens):
    target = load(model_folder / "embedded-target-f16.gguf")
    target.set_interrupt(lambda: True)
    wait_for_interrupt(target)
    sizes = []
    for _ in range(6):
        with pytest.raises(DecodeInterruptedError):
            target.decode(tokens[: target.n_ubatch], 0)
        sizes.append(target.n_ubatch)
    assert sizes == [64, 32, 16, 8, 8, 8]
    target.set_interrupt(None)
    for _ in range(5):
        target.decode(tokens[: target.n_ubatch], 0)
        sizes.append(target.n_ubatch)
    assert sizes[6:] == [16, 32, 64, 128, 128]
    target.decode(tokens[:1], 1)
    assert target.n_ubatch == 128


def test_a_slow_machine_keeps_what_came_before_an_interrupt(
    load, model_folder, tokens, monkeypatch
):
    """At 40 tokens a second a client that gives up after 3 s finds 100 of 120 the next time."""
    target = load(model_folder / "embedded-target-f16.gguf")
    native, now, end = llama.llama_decode, 0, 0

    def slow(context, batch):
        nonlocal now
        finishes = now + batch.n_tokens * 25_000_000  # type: ignore[attr-defined]
        now = min(finishes, end)
        return native(context, batch) if finishes <= end else 2

    monkeypatch.setattr(llama, "llama_decode", slow)
    monkeypatch.setattr("speclsp.backends.llama.context.perf_counter_ns", lambda: now)

    def evaluate():
        while True:
            n_cached = len(target.cached)
            target.decode(tokens[n_cached : n_cached + target.n_ubatch], 0)

    kept = []
    for _ in range(4):
        end = now + 3_000_000_000
        with pytest.raises(DecodeInterruptedError):
            evaluate()
        kept.append(len(target.cached))
    assert kept[0] == 0
    assert all(after - before >= 100 for before, after in pairwise(kept))


def test_an_interrupt_stops_all_threads(load, model_folder, tokens):
    target = load(model_folder / "embedded-target-f16.gguf", ctx_size=256, threads=2)
    target.decode(tokens[:20], 0)
    reference = target.decode(tokens[20:24], 4).copy()
    target.truncate(20)
    target.set_interrupt(lambda: True)
    wait_for_interrupt(target)
    with pytest.raises(DecodeInterruptedError):
        target.decode(tokens[20:24], 4)
    target.set_interrupt(None)
    assert np.array_equal(target.decode(tokens[20:24], 4), reference)


def test_an_interrupt_in_the_middle_of_a_long_decode(target, tokens):
    target.decode(tokens[:20], 0)
    asked: list[int] = []

    def after_a_while():
        asked.append(1)
        return len(asked) > 2

    target.set_interrupt(after_a_while)
    n_interrupted = 0
    for _ in range(200):
        try:
            target.decode(tokens[20:1000], 0)
        except DecodeInterruptedError:
            n_interrupted += 1
            break
        target.truncate(20)
    assert n_interrupted == 1
    assert list(target.cached) == tokens[:20]
    assert held_positions(target) == (0, 19)
    target.set_interrupt(None)


def test_a_predicate_that_stays_false_changes_nothing(target, tokens):
    target.set_interrupt(lambda: False)
    logits = target.decode(tokens[:600], 1).copy()
    target.set_interrupt(None)
    target.truncate(0)
    assert np.array_equal(target.decode(tokens[:600], 1), logits)


def test_closing_frees_and_the_model_can_be_loaded_again(load, model_folder, tokens):
    path = model_folder / "embedded-target-f16.gguf"
    results = []
    for _ in range(3):
        target = load(path, ctx_size=512)
        results.append(target.decode(tokens[:40], 1).copy())
        target.set_interrupt(lambda: False)
        target.close()
        target.close()
        assert list(target.cached) == []
        with pytest.raises(EngineUnavailableError):
            target.decode([1], 1)
        with pytest.raises(EngineUnavailableError):
            target.truncate(0) if target.cached else target.warm_up()
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize(
    ("ctx_size", "n_ctx"), [(0, 2048), (100_000, 2048), (512, 512), (300, 300), (2048, 2048)]
)
def test_the_context_is_the_trained_one_at_most(load, model_folder, ctx_size, n_ctx):
    target = load(model_folder / "embedded-draft-q8_0.gguf", ctx_size=ctx_size)
    assert target.n_ctx == n_ctx
    assert target.n_batch <= n_ctx


@pytest.mark.parametrize(
    ("type_k", "type_v", "flash_attn"),
    [
        ("q8_0", "q8_0", "auto"),
        ("q4_0", "f16", "on"),
        ("bf16", "bf16", "off"),
        ("f32", "f32", "on"),
    ],
)
def test_types_of_the_kv_cache(load, model_folder, tokens, type_k, type_v, flash_attn):
    target = load(
        model_folder / "embedded-target-f16.gguf",
        ctx_size=512,
        cache_type_k=type_k,
        cache_type_v=type_v,
        flash_attn=flash_attn,
    )
    assert np.isfinite(target.decode(tokens[:64], 1)).all()


def test_small_batches_and_micro_batches(load, model_folder, tokens):
    target = load(
        model_folder / "embedded-target-f16.gguf", ctx_size=512, batch_size=32, ubatch_size=64
    )
    assert (target.n_batch, target.n_ubatch) == (32, 32)
    with pytest.raises(ValueError, match="batch of 32"):
        target.decode(tokens[:33], 0)
    assert target.decode(tokens[:32], 32).shape == (32, 4096)


def test_batches_of_one_token(load, model_folder, tokens):
    target = load(model_folder / "embedded-target-f16.gguf", ctx_size=256, batch_size=1)
    assert (target.n_batch, target.n_ubatch, target.supports_rollback) == (1, 1, True)
    for token in tokens[:5]:
        target.decode([token], 1)
    assert list(target.cached) == tokens[:5]


def test_a_context_that_cannot_be_made_is_a_clear_error(load, gguf_maker):
    # Heads of 24 values are no whole blocks of 32.
    path = gguf_maker.narrow_model("narrow.gguf", ["a", "b", "ab", "c"])
    load(path, ctx_size=256)
    with pytest.raises(ModelLoadError, match="block size 32 does not divide") as caught:
        load(path, ctx_size=256, cache_type_k="q8_0")
    assert "cache_type_k" in caught.value.remedy


def test_a_device_without_memory_has_its_remedies(target, monkeypatch):
    monkeypatch.setattr(llama, "llama_decode", lambda *_: -2)
    with pytest.raises(DecodeError, match="out of memory") as caught:
        target.decode([1, 2, 3], 1)
    assert "`-ctk q8_0 -ctv q8_0`" in caught.value.remedy
    assert "`-cd 1024` and `-ctkd q8_0 -ctvd q8_0`" in caught.value.remedy
    assert target.cached == []
