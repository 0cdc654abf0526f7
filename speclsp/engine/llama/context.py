"""A llama.cpp context behind the decoding loop's target protocol."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.decoding.protocol import Logits
from speclsp.engine.llama.batch import DecodeBatch
from speclsp.engine.llama.interrupt import DecodeInterrupt
from speclsp.engine.llama.library import collected_lines
from speclsp.engine.llama.model import LlamaModel
from speclsp.engine.params import ContextParams
from speclsp.errors import (
    DecodeError,
    DecodeInterruptedError,
    EngineUnavailableError,
    ModelLoadError,
)

_MAX_OUTPUTS = 128
"""Most rows of logits of one llama_decode.

llama.cpp reserves memory for them on the device (n_vocab · 4 bytes each), so not as many as a
batch has tokens.
"""
_CACHE_TYPES = {
    "f32": llama.GGML_TYPE_F32,
    "f16": llama.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16, which llama_cpp does not name
    "q8_0": llama.GGML_TYPE_Q8_0,
    "q4_0": llama.GGML_TYPE_Q4_0,
    "q4_1": llama.GGML_TYPE_Q4_1,
    "iq4_nl": llama.GGML_TYPE_IQ4_NL,
    "q5_0": llama.GGML_TYPE_Q5_0,
    "q5_1": llama.GGML_TYPE_Q5_1,
}
_FLASH_ATTN = {"off": 0, "on": 1, "auto": -1}
_SUCCESS, _ABORTED = 0, 2
_SEQUENCE = 0


class LlamaTarget:
    """Implements :class:`speclsp.decoding.protocol.Target`; belongs to one thread.

    Owns its context and its model.  ``cached`` and llama.cpp's KV cache always agree.
    """

    def __init__(self, model: LlamaModel, params: ContextParams) -> None:
        """Make a context.  Raises :class:`ModelLoadError` where llama.cpp cannot."""
        self._model = model
        self._n_vocab = model.n_vocab
        n_ctx = min(params.n_ctx or model.n_ctx_train, model.n_ctx_train)
        self._context = _open_context(model, params, n_ctx)
        self._free = weakref.finalize(self, llama.llama_free, self._context)
        self._memory = llama.llama_get_memory(self._context)
        if not self._memory:
            self._free()
            raise ModelLoadError(
                f"The model ({model.description}) keeps no context: it does not generate text.",
                remedy="Take a decoder-only code model with fill-in-the-middle tokens.",
            )
        # llama.cpp rounds the context up; positions beyond the trained context stay unused.
        self._n_ctx = min(n_ctx, int(llama.llama_n_ctx(self._context)))
        self._n_batch = min(int(llama.llama_n_batch(self._context)), self._n_ctx)
        self._n_ubatch = min(int(llama.llama_n_ubatch(self._context)), self._n_batch)
        self._n_outputs = min(_MAX_OUTPUTS, self._n_batch)
        self._interrupt = DecodeInterrupt()
        self._interrupt.install(self._context)
        self._cached: list[int] = []
        self._n_evaluated = 0
        self._ns_native = 0
        self._supports_rollback = True
        self._batch = DecodeBatch(self._n_batch, self._n_ctx)

    @property
    def n_ctx(self) -> int:
        """Positions that the KV cache holds, the model's trained context at most."""
        return self._n_ctx

    @property
    def n_ctx_train(self) -> int:
        """Positions that the model was trained on."""
        return self._model.n_ctx_train

    @property
    def n_batch(self) -> int:
        """Most tokens of one decode call."""
        return self._n_batch

    @property
    def n_ubatch(self) -> int:
        """Tokens that the backend computes at once."""
        return self._n_ubatch

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return self._n_vocab

    @property
    def cached(self) -> Sequence[int]:
        """The token ids that the KV cache holds, by position; the same list every time."""
        return self._cached

    @property
    def n_evaluated(self) -> int:
        """Tokens that were decoded since the start, for statistics and tests."""
        return self._n_evaluated

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside llama.cpp's decode and the wait for its logits since the start."""
        return self._ns_native

    @property
    def supports_rollback(self) -> bool:
        """Whether single tokens can be taken back, as speculation needs; recurrent models cannot.

        Known after :meth:`warm_up`.
        """
        return self._supports_rollback

    @property
    def layers(self) -> dict[str, int]:
        """Layers per device name; the output layer counts as one."""
        return dict(self._model.layers)

    @property
    def size(self) -> int:
        """Bytes of all weights."""
        return self._model.size

    @property
    def description(self) -> str:
        """llama.cpp's words for the model, for example ``qwen2 1.5B Q8_0``."""
        return self._model.description

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop a running decode as soon as ``predicate`` is true; None for never.

        It is asked on another thread every few milliseconds.  Works on the CPU; on a GPU a decode
        runs to its end.  The decode then raises :class:`DecodeInterruptedError`, and so does each
        further one until this is called again.
        """
        self._interrupt.watch(predicate)

    def warm_up(self) -> None:
        """Decode two tokens and take one back, so that the first request is as fast as the rest.

        Finds out whether the model supports that.  Empties the cache.
        Raises :class:`DecodeError` where the model cannot decode at all.
        """
        self._clear()
        self.decode([0], 0)
        self.decode([0], 1)  # apart, since a batch may hold one token only
        self._supports_rollback = self._remove_from(1)
        self._clear()
        self._n_evaluated = 0

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, forget the rest.

        Where the model cannot take back a part, the rest is decoded anew.
        Raises :class:`DecodeError` where that fails.
        """
        if n_tokens >= len(self._cached):
            return
        if n_tokens <= 0:
            self._clear()
            return
        self._check_open()
        if self._supports_rollback and self._remove_from(n_tokens):
            del self._cached[n_tokens:]
            return
        kept = self._cached[:n_tokens]
        self._clear()
        for start in range(0, n_tokens, self._n_batch):
            self.decode(kept[start : start + self._n_batch], 0)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` to the cache and return the logits of the last ``n_logits`` of them.

        Row i of the result predicts what follows token ``len(tokens) - n_logits + i``; shape
        [n_logits, n_vocab], a view of llama.cpp's memory that is valid until the next decode.
        Raises :class:`DecodeError`, after which the cache is empty, or
        :class:`DecodeInterruptedError`, after which it is as before (empty where the model cannot
        take back a part); ValueError for more tokens than batch or context hold.
        """
        n_tokens = len(tokens)
        n_cached = len(self._cached)
        if not 0 < n_tokens <= self._n_batch or n_cached + n_tokens > self._n_ctx:
            raise ValueError(
                f"{n_tokens} tokens do not fit a batch of {self._n_batch}, or a context of "
                f"{self._n_ctx} that holds {n_cached}"
            )
        if not 0 <= n_logits <= n_tokens:
            raise ValueError(f"{n_logits} rows of logits of {n_tokens} tokens")
        if n_logits > self._n_outputs:
            return self._decode_in_pieces(tokens, n_logits)
        self._check_open()
        self._batch.fill(tokens, n_cached, n_logits)
        started = perf_counter_ns()
        status = llama.llama_decode(self._context, self._batch.native)
        self._ns_native += perf_counter_ns() - started
        if status != _SUCCESS:
            self._recover(status, n_cached, n_tokens)
        self._cached.extend(self._batch.tokens())
        self._n_evaluated += n_tokens
        return self._logits(n_logits)

    def close(self) -> None:
        """Free the context and the weights; again changes nothing."""
        self._interrupt.close()
        self._free()
        self._model.close()
        self._cached.clear()

    def _logits(self, n_rows: int) -> Logits:
        if n_rows == 0:
            # A GPU may still be computing; whoever asks for no logits wants to check the time.
            started = perf_counter_ns()
            llama.llama_synchronize(self._context)
            self._ns_native += perf_counter_ns() - started
            return np.empty((0, self._n_vocab), dtype=np.float32)
        started = perf_counter_ns()
        rows = llama.llama_get_logits(self._context)  # waits for a GPU
        self._ns_native += perf_counter_ns() - started
        address = ctypes.cast(rows, ctypes.c_void_p).value
        if address is None:
            self._clear()
            raise DecodeError("llama.cpp computed no logits: this is no text generation model.")
        n_values = n_rows * self._n_vocab
        memory: Any = (ctypes.c_float * n_values).from_address(address)
        logits: Logits = np.frombuffer(memory, dtype=np.float32).reshape(n_rows, self._n_vocab)
        return logits

    def _decode_in_pieces(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Decode more rows of logits than llama.cpp has room for, one roomful at a time."""
        n_cached = len(self._cached)
        logits = np.empty((n_logits, self._n_vocab), dtype=np.float32)
        n_silent = len(tokens) - n_logits
        try:
            if n_silent:
                self.decode(tokens[:n_silent], 0)
            for start in range(0, n_logits, self._n_outputs):
                rows = min(self._n_outputs, n_logits - start)
                piece = tokens[n_silent + start : n_silent + start + rows]
                logits[start : start + rows] = self.decode(piece, rows)
        except DecodeInterruptedError:
            self.truncate(n_cached)
            raise
        return logits

    def _recover(self, status: int, n_cached: int, n_tokens: int) -> None:
        """Put the cache in order after a failed decode, and raise."""
        aborted = status == _ABORTED
        if not (aborted and self._supports_rollback and self._remove_from(n_cached)):
            self._clear()
        if aborted:
            raise DecodeInterruptedError("llama_decode was interrupted.")
        reason = {1: "the KV cache has no room", -1: "the batch is not valid"}.get(
            status, f"it returned {status}"
        )
        raise DecodeError(
            f"llama_decode failed on {n_tokens} tokens after {n_cached}: {reason}.",
            remedy="The log at debug level says more.",
        )

    def _remove_from(self, position: int) -> bool:
        return bool(llama.llama_memory_seq_rm(self._memory, _SEQUENCE, position, -1))

    def _clear(self) -> None:
        self._check_open()
        llama.llama_memory_clear(self._memory, False)  # data: the values may stay, unreachable
        self._cached.clear()

    def _check_open(self) -> None:
        if not self._free.alive:
            raise EngineUnavailableError("The model was closed.")


def _open_context(model: LlamaModel, params: ContextParams, n_ctx: int) -> int:
    native = llama.llama_context_default_params()
    native.n_ctx = n_ctx
    native.n_batch = params.n_batch
    native.n_ubatch = params.n_ubatch
    native.n_seq_max = 1
    native.n_outputs_max = min(_MAX_OUTPUTS, params.n_batch)
    native.n_threads = params.n_threads
    native.n_threads_batch = params.n_threads_batch
    native.flash_attn_type = _FLASH_ATTN[params.flash_attn]
    native.type_k = _CACHE_TYPES[params.type_k]
    native.type_v = _CACHE_TYPES[params.type_v]
    native.offload_kqv = params.kv_offload
    # A sliding-window cache that forgets could not be taken back to an earlier position.
    native.swa_full = True
    with collected_lines() as lines:
        context: int | None = llama.llama_init_from_model(model.pointer, native)
    if not context:
        errors = [line.split(": ", 1)[-1] for level, line in lines if level == "error"]
        reason = "; ".join(errors).rstrip(". ") or "it gives no reason"
        raise ModelLoadError(
            f"llama.cpp cannot make a context of {n_ctx} positions: {reason}.",
            remedy="Lower ctx_size, or change cache_type_k and cache_type_v.",
        )
    return context
