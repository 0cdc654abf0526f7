"""Creates a ``llama_context`` and interrupts its decodes."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from typing import Any, Final

from llama_cpp import llama_cpp as llama

from speclsp.backends.llama.fit import MAX_OUTPUTS, SNAPSHOTS_SHARE
from speclsp.backends.llama.library import c_library, collected_lines
from speclsp.backends.llama.model import LlamaModel
from speclsp.backends.params import N_BRANCHES, n_threads
from speclsp.errors import ModelLoadError
from speclsp.settings import Settings

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
MAX_SNAPSHOTS: Final = 15
"""Most snapshots of recurrent layers' states: as long drafts as make a batch of 16 tokens."""
_STATE_SIZE = re.compile(r"RS buffer size = +([\d.]+) MiB")
_POLL_INTERVAL_S = 0.005
_FLASH_ATTN = {"off": 0, "on": 1, "auto": -1}


class DecodeInterrupt:
    """Stops a running llama_decode as soon as a predicate is true.

    llama.cpp calls its abort callback before each operation of a graph, hundreds of times per
    decode.  A Python callback would take the interpreter's lock each time, so the callback is a C
    function that reads one byte: ``strlen`` of a string that is empty until a thread writes its
    first character.  The thread starts with the first predicate and sleeps while there is none.
    Only the CPU backend calls it; on a GPU a decode runs to its end.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self._condition = threading.Condition()
        self._predicate: Callable[[], bool] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def install(self, context: int) -> None:
        """Install the callback in a ``llama_context``."""
        callback = ctypes.cast(c_library().strlen, llama.ggml_abort_callback)
        llama.llama_set_abort_callback(context, callback, ctypes.cast(self._text, ctypes.c_void_p))

    def watch(self, predicate: Callable[[], bool] | None) -> None:
        """Stop decodes as soon as ``predicate`` is true; None stops none.

        Clears an earlier interrupt.  Another thread calls ``predicate`` every five milliseconds.
        """
        with self._condition:
            self._predicate = predicate
            self._text[0] = b"\0"
            if predicate is not None and self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name="speclsp-interrupt", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

    def close(self) -> None:
        """End the thread."""
        with self._condition:
            self._closed = True
            self._predicate = None
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with self._condition:
            while not self._closed:
                if self._predicate is None:
                    self._condition.wait()
                elif self._predicate():
                    self._text[0] = b"\1"
                    self._predicate = None
                else:
                    self._condition.wait(_POLL_INTERVAL_S)


def open_context(model: LlamaModel, settings: Settings, n_ctx: int) -> tuple[int, list[str]]:
    """Return the address of a new ``llama_context``, and the lines that llama.cpp logged.

    Raises :class:`~speclsp.errors.ModelLoadError` if llama.cpp refuses.
    """
    native = llama.llama_context_default_params()
    native.n_ctx = n_ctx
    native.n_batch = settings.batch_size
    native.n_ubatch = min(settings.ubatch_size, settings.batch_size)
    native.n_outputs_max = min(MAX_OUTPUTS, settings.batch_size)
    # Recurrent layers keep a state per sequence, which costs memory and cannot branch.  Of some
    # architectures llama.cpp keeps snapshots of the last tokens' states.
    # llama.cpp aborts where there are more sequences than rows of logits.
    is_branched = settings.speculation and not model.is_recurrent
    native.n_seq_max = min(N_BRANCHES, native.n_outputs_max) if is_branched else 1
    # Branches share the text's cells only in a unified buffer.
    native.kv_unified = native.n_seq_max > 1
    native.n_threads, native.n_threads_batch = n_threads(settings, model.size)
    native.flash_attn_type = _FLASH_ATTN[settings.flash_attn]
    native.type_k = _CACHE_TYPES[settings.cache_type_k]
    native.type_v = _CACHE_TYPES[settings.cache_type_v]
    native.offload_kqv = settings.kv_offload
    # A sliding-window cache that drops positions cannot be rolled back.
    native.swa_full = True
    native.n_rs_seq = int(settings.speculation and model.is_recurrent)
    context, lines = _new_context(model, native)
    n_snapshots = _n_snapshots(context, model, lines)
    if n_snapshots > native.n_rs_seq:
        llama.llama_free(context)
        native.n_rs_seq = n_snapshots
        context, lines = _new_context(model, native)
    return context, lines


def _n_snapshots(context: int, model: LlamaModel, lines: list[str]) -> int:
    """Return how many snapshots of the recurrent layers' states are worth their memory."""
    kept = int(llama.llama_n_rs_seq(context))
    sizes = [float(found[1]) for found in map(_STATE_SIZE.search, lines) if found]
    if not kept or not sizes:
        return kept
    n_bytes = sum(sizes) * 2**20 / (1 + kept)
    n_most = model.size / SNAPSHOTS_SHARE / n_bytes if n_bytes else MAX_SNAPSHOTS
    return max(1, min(MAX_SNAPSHOTS, int(n_most)))


def _new_context(model: LlamaModel, native: Any) -> tuple[int, list[str]]:
    with collected_lines() as lines:
        context: int | None = llama.llama_init_from_model(model.pointer, native)
    if not context:
        errors = [line.split(": ", 1)[-1] for level, line in lines if level == "error"]
        reason = "; ".join(errors).rstrip(". ") or "it gives no reason"
        raise ModelLoadError(
            f"llama.cpp cannot make a context of {native.n_ctx} positions: {reason}.",
            remedy="Lower ctx_size, or change cache_type_k and cache_type_v.",
        )
    if not llama.llama_get_memory(context):
        llama.llama_free(context)
        raise ModelLoadError(
            f"The model ({model.description}) keeps no context: it does not generate text.",
            remedy="Choose a decoder-only code model with fill-in-the-middle tokens.",
        )
    return context, [line for _, line in lines]
