"""The decoding loop's target: a llama.cpp context with the tokens in its KV cache."""

from __future__ import annotations

import ctypes
import weakref
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.backends.kv_states import KvState
from speclsp.backends.llama.checkpoints import Checkpoints, read_state, write_state
from speclsp.backends.llama.fit import MAX_OUTPUTS
from speclsp.backends.llama.model import LlamaModel
from speclsp.backends.llama.native_context import DecodeInterrupt, open_context
from speclsp.backends.llama.sequences import TEXT, BranchedCache, DecodeBatch
from speclsp.backends.llama.tree_branches import TreeBranches, check_path, tree_branches
from speclsp.decoding.target import Logits
from speclsp.errors import DecodeError, DecodeInterruptedError, EngineUnavailableError, NoRoomError
from speclsp.settings import Settings

_SUCCESS, _NO_ROOM, _ABORTED = 0, 1, 2
_NO_MEMORY: Final = -2
_REASONS = {
    _NO_ROOM: "the KV cache has no room",
    -1: "the batch is not valid",
    _NO_MEMORY: "the device is out of memory",
}
_logits_address: Any = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
    ctypes.cast(llama.llama_get_logits, ctypes.c_void_p).value or 0
)
"""llama_get_logits as an address: llama_cpp's declaration makes a pointer object per call."""
_CPU: Final = "CPU"
_CPU_CHUNK: Final = 128
"""A prompt takes 2 % longer than with 512 (0.5b shape, two cores); with 64, 8 % longer."""
_LEAST_CHUNK: Final = 8
_MOST_LOST_NS: Final = 500_000_000
"""Nanoseconds of work that another interrupt may lose, once one did."""
_CPU_ROWS: Final = 4
"""Tokens that the CPU's matrix kernels compute at once; each of the rest takes as long as one that
is computed alone.  A pass over 7 tokens took 1.3 times as long as one over 8 (Q8_0, x86), and up to
as many nothing is gained."""
_N_WORTH: Final = 32
"""Tokens that are worth a saved state: fewer are evaluated again."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """The last evaluated tree: its nodes are in llama.cpp's cache but not in ``cached``."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    branches: TreeBranches


@dataclass(slots=True)
class _Fork:
    """A continuation that shares ``n_shared`` positions and has ``n_tokens`` of its own."""

    n_shared: int
    n_tokens: int = 0


class LlamaTarget:
    """Implements :class:`speclsp.decoding.target.ForkTarget`; belongs to one thread.

    Owns its context and its model.  ``cached`` always equals llama.cpp's KV cache, except for forks
    and, until :meth:`keep_path`, the nodes of a tree.  Its many attributes are that one cache's
    state and what the decoding loop reads of a target.
    """

    def __init__(self, model: LlamaModel, settings: Settings, n_ctx: int) -> None:
        """Make a context of ``n_ctx`` positions.

        Raises :class:`ModelLoadError` if llama.cpp refuses.
        """
        self.model = model
        self.n_vocab = model.n_vocab
        """Size of the vocabulary."""
        self.shortfall = ""
        """What did not fit the memory, with the remedy; set by the loader."""
        self._context, log_lines = open_context(model, settings, n_ctx)
        self._open = [self._context]
        """Empty once the context is freed."""
        self._free = weakref.finalize(self, _free, self._open)
        # With `auto`, llama.cpp queries the device for the fused kernels.
        self.flash_attention = settings.flash_attn == "on" or (
            settings.flash_attn == "auto"
            and not any("Flash Attention not supported" in line for line in log_lines)
        )
        """Whether the fused attention kernels are used."""
        self.log_lines = (*model.log_lines, *log_lines)
        """What llama.cpp logged while it loaded the model and made the context."""
        # llama.cpp rounds the context up; positions beyond the trained context stay unused.
        self.n_ctx = min(n_ctx, int(llama.llama_n_ctx(self._context)))
        """Positions that the KV cache holds, the model's trained context at most."""
        self.n_batch = min(int(llama.llama_n_batch(self._context)), self.n_ctx)
        """Most tokens of one decode call."""
        is_on_cpu = set(model.layers) <= {_CPU}
        self.batch_sizes: Sequence[int] = _cpu_batch_sizes(self.n_batch) if is_on_cpu else ()
        """Sizes, rising, to the next of which a batch is padded; one beyond the last is not."""
        n_most = min(self.n_batch, _CPU_CHUNK) if is_on_cpu else self.n_batch
        self._n_chunk = self._n_chunk_max = min(int(llama.llama_n_ubatch(self._context)), n_most)
        self._n_outputs = min(MAX_OUTPUTS, self.n_batch)
        self._interrupt = DecodeInterrupt()
        self._interrupt.install(self._context)
        self.cached: list[int] = []
        """The token ids that the KV cache holds, by position; the same list every time."""
        self.ns_native = 0
        """Nanoseconds spent in llama.cpp's decode and waiting for logits since the start."""
        self.n_evaluated = 0
        """Tokens that were decoded since the start, for statistics and tests."""
        self.supports_rollback = not model.is_recurrent
        """Whether any tokens can be rolled back.  Recurrent layers keep a state instead, which
        :meth:`truncate` restores.  Known after :meth:`warm_up`."""
        self.n_branches = int(llama.llama_n_seq_max(self._context))
        """Most leaves of a tree; 1 if the model's memory has no branches.  Known after
        :meth:`warm_up`."""
        self._cache = BranchedCache(llama.llama_get_memory(self._context), self.n_branches)
        self._batch = DecodeBatch(self.n_batch, self.n_branches)
        self._n_snapshots = int(llama.llama_n_rs_seq(self._context))
        self._n_last = 0
        """Tokens of the last decode, whose states llama.cpp has snapshots of."""
        self._checkpoints = Checkpoints(self._context)
        self._gone_back_to = 0
        """Where the next prompt will probably go back to as well; 0 if not known."""
        self._tree: _Tree | None = None
        self._forks: list[_Fork] = []
        self._rows: Logits = np.empty((0, self.n_vocab), dtype=np.float32)
        """A view of the largest number of rows so far, which the next decode overwrites."""
        self._rows_address = 0

    @property
    def n_ubatch(self) -> int:
        """Best chunk size for prompts: as many tokens as the backend computes at once.

        Smaller on a CPU, where an interrupted decode loses its work.  An interrupted decode halves
        the size at least, and a finished one doubles it, where a chunk of the new size takes half
        a second at most: a client that gives up after seconds, and asks again, finds most of what
        was evaluated.
        """
        return self._n_chunk

    @property
    def max_draft(self) -> int:
        """Most tokens of a draft that can be taken back; 0 where none can."""
        if self.model.is_recurrent and self._n_snapshots:
            return self._n_snapshots
        return self._n_outputs - 1 if self.supports_rollback or self.evaluates_again else 0

    @property
    def evaluates_again(self) -> bool:
        """Whether accepted tokens are evaluated again after a draft with a wrong token."""
        return self.model.is_recurrent and not self._n_snapshots

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop a running decode as soon as ``predicate`` is true; None never stops it.

        Another thread calls it every few milliseconds.  Works on the CPU; on a GPU a decode runs
        to its end.  The decode raises :class:`DecodeInterruptedError`, as do all further ones
        until this method is called again.
        """
        self._interrupt.watch(predicate)

    def warm_up(self) -> None:
        """Decode two tokens and roll one back, so that the first request is as fast as others.

        Detects support for rollback and trees.  Empties the cache.
        Raises :class:`DecodeError` if the model cannot decode at all.
        """
        self._clear()
        self.decode([0], 0)
        self.decode([0], 1)  # separately, since a batch may have room for one token only
        if not self.model.is_recurrent:
            self.supports_rollback = self._cache.remove_from(1)
        self._clear()
        self._try_a_tree()
        self.n_evaluated = 0

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, and remove the others.

        A model with recurrent layers goes back to a saved state, and may keep fewer.
        """
        self._forget_tree()
        if n_tokens >= len(self.cached):
            return
        if n_tokens <= 0:
            self._clear()
            return
        self._check_open()
        if self.supports_rollback and self._cache.remove_from(n_tokens):
            del self.cached[n_tokens:]
            return
        self._go_back(n_tokens)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` to the cache and return the logits of the last ``n_logits`` of them.

        Row i of the result predicts what follows token ``len(tokens) - n_logits + i``; shape
        [n_logits, n_vocab], a view of llama.cpp's memory that is valid until the next decode.
        Raises :class:`DecodeError`, after which the cache is empty, or
        :class:`DecodeInterruptedError` or :class:`NoRoomError`, after which it is unchanged
        (shorter without rollback);
        ValueError for more tokens than batch or context hold, or more than ``MAX_OUTPUTS`` rows.
        """
        self._forget_tree()
        n_tokens = len(tokens)
        n_cached = len(self.cached)
        if not 0 < n_tokens <= self.n_batch or n_cached + n_tokens > self.n_ctx:
            raise ValueError(
                f"{n_tokens} tokens do not fit a batch of {self.n_batch}, or a context of "
                f"{self.n_ctx} that holds {n_cached}"
            )
        if not 0 <= n_logits <= min(n_tokens, self._n_outputs):
            raise ValueError(
                f"{n_logits} rows of logits of {n_tokens} tokens, where {self._n_outputs} are the "
                "most"
            )
        self._check_open()
        if self.model.is_recurrent:
            tokens = self._evaluate_stable(tokens, n_logits)
            n_tokens, n_cached = len(tokens), len(self.cached)
            if n_logits > 1 and self.evaluates_again:
                self._checkpoints.save_before_draft(n_cached)
        self._batch.fill(tokens, n_cached, n_logits)
        self._run(n_tokens, n_cached + n_tokens)
        self.cached.extend(self._batch.tokens(n_tokens))
        self._n_last = n_tokens
        return self._logits(n_logits)

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Append ``pending`` to the cache and evaluate a tree after it.

        See :meth:`speclsp.decoding.target.TreeTarget.decode_tree`; the result is a view of
        llama.cpp's memory that is valid until the next decode.
        Raises :class:`DecodeError`, :class:`DecodeInterruptedError` and ValueError as
        :meth:`decode` does, and ValueError for too many branches or rows of logits.
        """
        self._forget_tree()
        n_pending, n_nodes, n_cached = len(pending), len(tokens), len(self.cached)
        n_tokens = n_pending + n_nodes
        if not n_pending > 0 or n_tokens > self.n_batch or n_cached + n_tokens > self.n_ctx:
            raise ValueError(
                f"{n_pending} tokens and a tree of {n_nodes} do not fit a batch of "
                f"{self.n_batch}, or a context of {self.n_ctx} that holds {n_cached}"
            )
        if n_nodes != len(parents) or n_nodes >= self._n_outputs:
            raise ValueError(
                f"a tree of {n_nodes} tokens and {len(parents)} parents where "
                f"{self._n_outputs - 1} are the most"
            )
        tree = tree_branches(parents, self.n_branches)
        self._check_open()
        for branch in range(1, tree.n_branches):
            self._cache.share(branch, n_cached)
        self._batch.fill_tree(pending, tokens, tree, n_cached)
        self._run(n_tokens, n_cached + n_pending + tree.first_branches.count(TEXT))
        ids = self._batch.tokens(n_tokens)
        self.cached.extend(ids[:n_pending])
        self._cache.note_extended(tree.n_branches, n_cached + n_pending)
        self._tree = _Tree(tuple(ids[n_pending:]), tuple(parents), tree)
        return self._logits(1 + n_nodes)

    def keep_path(self, path: Sequence[int]) -> None:
        """Append the nodes ``path`` of the last tree to the cache and drop its other nodes.

        Raises ValueError if ``path`` does not lead down the last tree.
        """
        tree = self._tree
        check_path(path, tree.parents if tree is not None else ())
        if tree is None:
            return
        self._check_open()
        self._tree = None
        self._cache.keep_path(tree.branches, path, len(self.cached))
        self.cached.extend(tree.tokens[node] for node in path)

    @property
    def n_free(self) -> int:
        """Unused positions of the KV cache."""
        return self.n_ctx - len(self.cached) - sum(fork.n_tokens for fork in self._forks)

    def fork(self, lengths: Sequence[int]) -> None:
        """Begin forks; see :meth:`speclsp.decoding.target.ForkTarget.fork`."""
        self._forget_tree()
        if len(lengths) >= self.n_branches:
            raise ValueError(f"{len(lengths)} forks where {self.n_branches - 1} are the most")
        if not all(0 < length <= len(self.cached) for length in lengths):
            raise ValueError(f"forks at {list(lengths)} of {len(self.cached)} positions")
        self._check_open()
        for fork_idx, length in enumerate(lengths):
            self._cache.share(1 + fork_idx, length)
        self._forks = [_Fork(length) for length in lengths]

    def decode_forks(self, forks: Sequence[int], tokens: Sequence[int]) -> Logits:
        """Append a token to each of ``forks`` and return the logits after them.

        See :meth:`speclsp.decoding.target.ForkTarget.decode_forks`; the result is a view of
        llama.cpp's memory that is valid until the next decode.
        Raises :class:`DecodeError` and :class:`DecodeInterruptedError` as :meth:`decode` does.
        """
        n_tokens = len(tokens)
        if not 0 < n_tokens <= self.n_free or len(set(forks)) != n_tokens:
            raise ValueError(f"{n_tokens} tokens for forks {list(forks)}, {self.n_free} free")
        if not all(0 <= fork < len(self._forks) for fork in forks):
            raise ValueError(f"forks {list(forks)} of {len(self._forks)}")
        self._check_open()
        growing = [self._forks[fork] for fork in forks]
        positions = [fork.n_shared + fork.n_tokens for fork in growing]
        self._batch.fill_forks(tokens, positions, [1 + fork for fork in forks])
        try:
            self._run(n_tokens, 0)
        except DecodeError:
            self.drop_forks()
            raise
        for fork in growing:
            fork.n_tokens += 1
        return self._logits(n_tokens)

    def drop_forks(self) -> None:
        """Drop all forks; the cache itself does not change."""
        forks, self._forks = self._forks, []
        for fork_idx, fork in enumerate(forks):
            if self._open:
                self._cache.cut(1 + fork_idx, fork.n_shared)

    @property
    def state_size(self) -> int:
        """Size in bytes of the state that :meth:`save_state` would return."""
        return int(llama.llama_state_seq_get_size(self._context, TEXT)) if self._open else 0

    def save_state(self) -> KvState | None:
        """Return a copy of the cache; None if llama.cpp fails."""
        self._forget_tree()
        self._check_open()
        data = read_state(self._context)
        return None if data is None else KvState(tuple(self.cached), data)

    def restore_state(self, state: KvState) -> bool:
        """Replace the cache by ``state``; return False, with an empty cache, if that fails.

        Cells may be ordered differently than before, so attention may add the same terms in
        another order.
        """
        self._clear()
        if not write_state(self._context, state.data):
            self._clear()
            return False
        self.cached.extend(state.tokens)
        if self.model.is_recurrent:
            self._checkpoints.save(len(self.cached))
        return True

    @property
    def n_graphs_reused(self) -> int:
        """How many decodes since the start computed a graph that llama.cpp had built before."""
        self._check_open()
        return int(llama.llama_perf_context(self._context).n_reused)

    def close(self) -> None:
        """Free the context and the weights; further calls do nothing."""
        self._interrupt.close()
        self._free()
        self.model.close()
        self.cached.clear()

    def _run(self, n_tokens: int, n_text: int) -> None:
        """Decode the batch; its tokens end the text's sequence at ``n_text``, 0 without rows."""
        n_padding = self._n_padding(n_tokens) if n_text else 0
        started = perf_counter_ns()
        if n_padding:
            self._batch.pad(n_padding, n_text)
        status = int(llama.llama_decode(self._context, self._batch.native))
        ns = perf_counter_ns() - started
        self.ns_native += ns
        if status != _SUCCESS:
            self._recover(status, n_tokens, ns)
        if n_padding:
            self._cache.cut(TEXT, n_text)
        if n_tokens >= self._n_chunk and 2 * ns <= _MOST_LOST_NS:
            self._n_chunk = min(2 * self._n_chunk, self._n_chunk_max)
        self.n_evaluated += n_tokens

    def _evaluate_stable(self, tokens: Sequence[int], n_logits: int) -> Sequence[int]:
        """Evaluate and save what later prompts will go back to; return the rest of ``tokens``.

        That ends before the last middle token of a fill-in-the-middle prompt, or where the last
        prompt went back to, unless these tokens are to give logits.
        """
        n_cached, n_most = len(self.cached), len(tokens) - max(n_logits, 1)
        middle = self.model.fim_middle
        ends = [self._gone_back_to - n_cached] if self._gone_back_to else []
        ends += [idx for idx in range(n_most + 1) if tokens[idx] == middle][-1:]
        for end in sorted(end for end in ends if 0 <= end <= n_most):
            first = tokens[: n_cached + end - len(self.cached)]
            if first:
                self._batch.fill(first, len(self.cached), 0)
                self._run(len(first), len(self.cached) + len(first))
                self.cached.extend(self._batch.tokens(len(first)))
            self._checkpoints.save(len(self.cached))
            tokens = tokens[len(first) :]
        return tokens

    def _go_back(self, n_tokens: int) -> None:
        """Go back to a state after ``n_tokens`` or fewer."""
        n_back = len(self.cached) - n_tokens
        if n_back <= min(self._n_snapshots, self._n_last - 1) and self._cache.remove_from(n_tokens):
            self._n_last = 0  # llama.cpp goes back once
            self._checkpoints.forget_after(n_tokens)
            del self.cached[n_tokens:]
            return
        n_kept = self._checkpoints.last(n_tokens)
        if n_tokens - n_kept >= _N_WORTH:
            self._gone_back_to = n_tokens
        if not (self._checkpoints.restore(n_kept) and self._cache.remove_from(n_kept)):
            self._clear()
            return
        self._n_last = 0
        del self.cached[n_kept:]

    def _n_padding(self, n_tokens: int) -> int:
        """Return the tokens to add to a batch of ``n_tokens`` for the next of its sizes."""
        sizes = self.batch_sizes
        idx = bisect_left(sizes, n_tokens)
        n_padded = sizes[idx] if idx < len(sizes) else n_tokens
        has_room = n_padded <= self.n_batch and len(self.cached) + n_padded <= self.n_ctx
        return n_padded - n_tokens if has_room and self.supports_rollback else 0

    def _forget_tree(self) -> None:
        """Remove a tree or forks from the KV cache."""
        if self._forks:
            self.drop_forks()
        if self._tree is not None:
            self.keep_path(())

    def _try_a_tree(self) -> None:
        """Detect whether the model's memory supports branches.  Empties the cache."""
        if not self.supports_rollback or self.n_batch < 3:
            self.n_branches = 1
        if self.n_branches == 1:
            return
        try:
            self.decode_tree([0], [0, 1], [-1, -1])
            self.keep_path([1])
        except DecodeError:
            self.n_branches = 1
        self._clear()

    def _logits(self, n_rows: int) -> Logits:
        """Wait for the last decode and return its ``n_rows`` rows of logits."""
        started = perf_counter_ns()
        if n_rows == 0:
            # A GPU may still be computing, and the caller checks the time next.
            llama.llama_synchronize(self._context)
            self.ns_native += perf_counter_ns() - started
            return self._rows[:0]
        address = _logits_address(self._context)  # waits for a GPU
        self.ns_native += perf_counter_ns() - started
        if not address:
            self._clear()
            raise DecodeError("llama.cpp computed no logits: this is not a text generation model.")
        if address != self._rows_address or n_rows > len(self._rows):
            # The address changes only when llama.cpp needs more room; a new view for each step
            # would take a tenth of a millisecond on a busy machine.
            memory: Any = (ctypes.c_float * (n_rows * self.n_vocab)).from_address(address)
            self._rows = np.frombuffer(memory, dtype=np.float32).reshape(n_rows, self.n_vocab)
            self._rows_address = address
        return self._rows[:n_rows]

    def _recover(self, status: int, n_tokens: int, ns: int) -> None:
        """Restore or empty the cache after a decode that failed in ``ns``, and raise."""
        n_cached = len(self.cached)
        aborted = status == _ABORTED
        if status not in (_NO_ROOM, _ABORTED):
            self._clear()
        elif not self.supports_rollback:
            self._n_last = 0  # the batch left no snapshots of what was before it
            self._go_back(n_cached)
        elif not self._cache.remove_from(n_cached):
            self._clear()
        if aborted:
            if n_tokens >= self._n_chunk:  # smaller batches are no measure for chunks
                n_in_time = n_tokens * _MOST_LOST_NS // max(ns, 1)
                n_chunk = min(self._n_chunk // 2, n_in_time)
                self._n_chunk = max(min(_LEAST_CHUNK, self._n_chunk), n_chunk)
            raise DecodeInterruptedError("llama_decode was interrupted.")
        reason = _REASONS.get(status, f"it returned {status}")
        remedy = "The log at debug level says more."
        if status == _NO_MEMORY:
            remedy = (
                "Choose a smaller model, lower `ctx_size`, or quantise the KV cache "
                "(`-ctk q8_0 -ctv q8_0`); for a draft model `-cd 1024` and `-ctkd q8_0 -ctvd q8_0`."
            )
        kind = NoRoomError if status == _NO_ROOM else DecodeError
        raise kind(
            f"llama_decode failed on {n_tokens} tokens after {n_cached}: {reason}.", remedy=remedy
        )

    def _check_open(self) -> None:
        if not self._open:
            raise EngineUnavailableError("The model was closed.")

    def _clear(self) -> None:
        self._check_open()
        self._cache.clear()
        self._checkpoints.clear()
        self._n_last = 0
        self._tree = None
        self._forks = []
        self.cached.clear()


def _free(opened: list[int]) -> None:
    """Free a context, which counts as closed from before the call."""
    llama.llama_free(opened.pop())


def _cpu_batch_sizes(n_most: int) -> Sequence[int]:
    return (*range(_CPU_ROWS), *range(_CPU_ROWS, n_most + 1, _CPU_ROWS))
