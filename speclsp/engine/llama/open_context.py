"""A llama.cpp context with its model, from opening to closing: sizes, description, interrupts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llama_cpp import llama_cpp as llama

from speclsp.engine.llama.allocations import Allocation
from speclsp.engine.llama.interrupt import DecodeInterrupt
from speclsp.engine.llama.model import LlamaModel
from speclsp.engine.llama.native_context import MAX_OUTPUTS, NativeContext
from speclsp.engine.params import ContextParams
from speclsp.errors import EngineUnavailableError, ModelLoadError

_CPU: Final = "CPU"
_N_CPU_CHUNK: Final = 128
"""Costs 2 % more than 512 on two cores with a 0.5b-shaped model, and 64 costs 8 %."""

_N_LEAST_CHUNK: Final = 8


class OpenContext:
    """Owns its context and its model; belongs to one thread."""

    def __init__(self, model: LlamaModel, params: ContextParams) -> None:
        """Make a context.  Raises :class:`ModelLoadError` where llama.cpp cannot."""
        self._model = model
        self._n_vocab = model.n_vocab
        n_ctx = min(params.n_ctx or model.n_ctx_train, model.n_ctx_train)
        self._native = NativeContext(model, params, n_ctx)
        context = self._native.pointer
        self._memory = llama.llama_get_memory(context)
        if not self._memory:
            self._native.close()
            raise ModelLoadError(
                f"The model ({model.description}) keeps no context: it does not generate text.",
                remedy="Take a decoder-only code model with fill-in-the-middle tokens.",
            )
        # llama.cpp rounds the context up; positions beyond the trained context stay unused.
        self._n_ctx = min(n_ctx, int(llama.llama_n_ctx(context)))
        self._n_batch = min(int(llama.llama_n_batch(context)), self._n_ctx)
        n_chunk = min(int(llama.llama_n_ubatch(context)), self._n_batch)
        self._n_chunk_max = min(n_chunk, _N_CPU_CHUNK) if set(model.layers) <= {_CPU} else n_chunk
        self._n_chunk = self._n_chunk_max
        self._n_outputs = min(MAX_OUTPUTS, self._n_batch)
        self._interrupt = DecodeInterrupt()
        self._interrupt.install(context)

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
        """Tokens that a prompt is best cut into: those that the backend computes at once.

        On a CPU fewer, since a decode that is stopped there loses what it has done.  After one that
        was stopped half as many, and twice as many after one that was not: on a machine that is too
        busy for a chunk within a request's deadline, requests would else leave each other nothing.
        """
        return self._n_chunk

    def _decoded(self, n_tokens: int) -> None:
        """Let chunks grow again."""
        if n_tokens >= self._n_chunk:
            self._n_chunk = min(2 * self._n_chunk, self._n_chunk_max)

    def _stopped(self, n_tokens: int) -> None:
        """Let chunks be smaller where one was stopped; smaller batches tell nothing of them."""
        if n_tokens >= self._n_chunk:
            self._n_chunk = max(min(_N_LEAST_CHUNK, self._n_chunk), self._n_chunk // 2)

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return self._n_vocab

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside llama.cpp's decode and the wait for its logits since the start."""
        return self._native.ns_native

    @property
    def layers(self) -> dict[str, int]:
        """Layers per device name; the output layer counts as one."""
        return dict(self._model.layers)

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """Where weights, KV cache and intermediate results lie."""
        return (*self._model.allocations, *self._native.allocations)

    @property
    def flash_attention(self) -> bool:
        """Whether attention is computed by the fused kernels."""
        return self._native.flash_attention

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

    def close(self) -> None:
        """Free the context and the weights; again changes nothing."""
        self._interrupt.close()
        self._native.close()
        self._model.close()

    def _check_open(self) -> None:
        if not self._native.is_open:
            raise EngineUnavailableError("The model was closed.")
