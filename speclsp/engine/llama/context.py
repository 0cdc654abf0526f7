"""A llama.cpp context and what its KV cache holds, behind the decoding loop's target protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.decoding.protocol import Logits
from speclsp.engine.kv_states import KvState
from speclsp.engine.llama.batch import DecodeBatch
from speclsp.engine.llama.branches import TEXT, BranchedCache
from speclsp.engine.llama.model import LlamaModel
from speclsp.engine.llama.open_context import OpenContext
from speclsp.engine.params import ContextParams
from speclsp.engine.tree_branches import TreeBranches, check_path, tree_branches
from speclsp.errors import DecodeError, DecodeInterruptedError

_SUCCESS, _ABORTED = 0, 2
_REASONS = {
    1: "the KV cache has no room",
    -1: "the batch is not valid",
    -2: "the device is out of memory",
}


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree whose nodes are in llama.cpp's cache and not in ``cached``."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    branches: TreeBranches


@dataclass(slots=True)
class _Fork:
    """A continuation of its own: it shares ``n_shared`` positions, and has ``n_tokens`` more."""

    n_shared: int
    n_tokens: int = 0


class LlamaTarget(OpenContext):
    """Implements :class:`speclsp.decoding.protocol.Target`; belongs to one thread.

    ``cached`` and llama.cpp's KV cache always agree, but for a
    tree that :meth:`decode_tree` hung on it.
    """

    def __init__(self, model: LlamaModel, params: ContextParams) -> None:
        """Make a context.  Raises :class:`ModelLoadError` where llama.cpp cannot."""
        super().__init__(model, params)
        self._cached: list[int] = []
        self._n_evaluated = 0
        self._supports_rollback = True
        n_branches = int(llama.llama_n_seq_max(self._native.pointer))
        self._cache = BranchedCache(self._memory, n_branches)
        self._n_branches = n_branches
        self._tree: _Tree | None = None
        self._forks: list[_Fork] = []
        self._batch = DecodeBatch(self._n_batch, self._n_ctx, n_branches)

    @property
    def cached(self) -> Sequence[int]:
        """The token ids that the KV cache holds, by position; the same list every time."""
        return self._cached

    @property
    def n_evaluated(self) -> int:
        """Tokens that were decoded since the start, for statistics and tests."""
        return self._n_evaluated

    @property
    def supports_rollback(self) -> bool:
        """Whether single tokens can be taken back, as speculation needs; recurrent models cannot.

        Known after :meth:`warm_up`.
        """
        return self._supports_rollback

    @property
    def n_branches(self) -> int:
        """Most leaves of a tree; 1 where the context or the model's memory allows none.

        Known after :meth:`warm_up`.
        """
        return self._n_branches

    @property
    def supports_trees(self) -> bool:
        """Whether :meth:`decode_tree` can be called.  Known after :meth:`warm_up`."""
        return self._n_branches > 1

    def warm_up(self) -> None:
        """Decode two tokens and take one back, so that the first request is as fast as the rest.

        Finds out whether the model supports that, and trees.  Empties the cache.
        Raises :class:`DecodeError` where the model cannot decode at all.
        """
        self._clear()
        self.decode([0], 0)
        self.decode([0], 1)  # apart, since a batch may hold one token only
        self._supports_rollback = self._cache.remove_from(1)
        self._clear()
        self._try_a_tree()
        self._n_evaluated = 0

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, forget the rest.

        Where the model cannot take back a part, the rest is decoded anew.
        Raises :class:`DecodeError` where that fails.
        """
        self._forget_tree()
        if n_tokens >= len(self._cached):
            return
        if n_tokens <= 0:
            self._clear()
            return
        self._check_open()
        if self._supports_rollback and self._cache.remove_from(n_tokens):
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
        self._forget_tree()
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
        self._run(self._batch.native, n_tokens)
        self._cached.extend(self._batch.tokens(n_tokens))
        return self._logits(n_logits)

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Append ``pending`` to the cache and evaluate a tree behind it.

        As :meth:`speclsp.decoding.protocol.TreeTarget.decode_tree` says; the result is a view of
        llama.cpp's memory that is valid until the next decode.
        Raises :class:`DecodeError`, :class:`DecodeInterruptedError` and ValueError as
        :meth:`decode` does; ValueError for too many branches or rows of logits, too.
        """
        self._forget_tree()
        n_pending, n_nodes, n_cached = len(pending), len(tokens), len(self._cached)
        n_tokens = n_pending + n_nodes
        if not n_pending > 0 or n_tokens > self._n_batch or n_cached + n_tokens > self._n_ctx:
            raise ValueError(
                f"{n_pending} tokens and a tree of {n_nodes} do not fit a batch of "
                f"{self._n_batch}, or a context of {self._n_ctx} that holds {n_cached}"
            )
        if n_nodes != len(parents) or n_nodes >= self._n_outputs:
            raise ValueError(
                f"a tree of {n_nodes} tokens and {len(parents)} parents where "
                f"{self._n_outputs - 1} are the most"
            )
        tree = tree_branches(parents, self._n_branches)
        self._check_open()
        self._cache.branch_off(tree.n_branches, n_cached)
        self._batch.fill_tree(pending, tokens, tree, n_cached)
        self._run(self._batch.native_tree, n_tokens)
        ids = self._batch.tokens(n_tokens)
        self._cached.extend(ids[:n_pending])
        self._cache.extended(tree.n_branches, n_cached + n_pending)
        self._tree = _Tree(tuple(ids[n_pending:]), tuple(parents), tree)
        return self._logits(1 + n_nodes)

    def keep_path(self, path: Sequence[int]) -> None:
        """Append the nodes ``path`` of the last tree to the cache, and forget the rest of it.

        Raises ValueError for what is no path down the last tree.
        """
        tree = self._tree
        check_path(path, tree.parents if tree is not None else ())
        if tree is None:
            return
        self._check_open()
        self._tree = None
        self._cache.keep_path(tree.branches, path, len(self._cached))
        self._cached.extend(tree.tokens[node] for node in path)

    @property
    def n_free(self) -> int:
        """Positions of the KV cache that hold nothing."""
        return self._n_ctx - len(self._cached) - sum(fork.n_tokens for fork in self._forks)

    def fork(self, lengths: Sequence[int]) -> None:
        """Begin forks, as :meth:`speclsp.decoding.protocol.ForkTarget.fork` says."""
        self._forget_tree()
        if len(lengths) >= self._n_branches:
            raise ValueError(f"{len(lengths)} forks where {self._n_branches - 1} are the most")
        if not all(0 < length <= len(self._cached) for length in lengths):
            raise ValueError(f"forks at {list(lengths)} of {len(self._cached)} positions")
        self._check_open()
        for fork_idx, length in enumerate(lengths):
            self._cache.fork(1 + fork_idx, length)
        self._forks = [_Fork(length) for length in lengths]

    def decode_forks(self, forks: Sequence[int], tokens: Sequence[int]) -> Logits:
        """Append a token to each of ``forks``, and return what follows them.

        As :meth:`speclsp.decoding.protocol.ForkTarget.decode_forks` says; the result is a view of
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
            self._run(self._batch.native_tree, n_tokens)
        except DecodeError:
            self.drop_forks()
            raise
        for fork in growing:
            fork.n_tokens += 1
        return self._logits(n_tokens)

    def drop_forks(self) -> None:
        """Forget all forks; the cache itself stays as it is."""
        forks, self._forks = self._forks, []
        for fork_idx, fork in enumerate(forks):
            if self._native.is_open:
                self._cache.end_fork(1 + fork_idx, fork.n_shared)

    @property
    def state_size(self) -> int:
        """Bytes that :meth:`save_state` takes now."""
        return self._native.state_size(TEXT) if self._native.is_open else 0

    def save_state(self) -> KvState | None:
        """Return a copy of the cache; None where llama.cpp cannot make one."""
        self._forget_tree()
        self._check_open()
        data = self._native.state(TEXT)
        return KvState(tuple(self._cached), data) if data is not None else None

    def restore_state(self, state: KvState) -> bool:
        """Make the cache hold ``state`` and nothing else; where that fails it is empty.

        Cells may lie otherwise than they did, so that attention adds up the same terms in another
        order.
        """
        self._clear()
        if not self._native.set_state(TEXT, state.data):
            self._clear()
            return False
        self._cached.extend(state.tokens)
        return True

    def close(self) -> None:
        """Free the context and the weights; again changes nothing."""
        super().close()
        self._cached.clear()

    def _run(self, batch: Any, n_tokens: int) -> None:
        status = self._native.decode(batch)
        if status != _SUCCESS:
            self._recover(status, n_tokens)
        self._decoded(n_tokens)
        self._n_evaluated += n_tokens

    def _forget_tree(self) -> None:
        """Forget what hangs on the cache and is no part of it: a tree, or forks."""
        if self._forks:
            self.drop_forks()
        if self._tree is not None:
            self.keep_path(())

    def _try_a_tree(self) -> None:
        """Find out whether the model's memory holds branches; the cache is empty meanwhile."""
        if not self._supports_rollback or self._n_batch < 3:
            self._n_branches = 1
        if self._n_branches == 1:
            return
        try:
            self.decode_tree([0], [0, 1], [-1, -1])
            self.keep_path([1])
        except DecodeError:
            self._n_branches = 1
        self._clear()

    def _logits(self, n_rows: int) -> Logits:
        logits = self._native.logits(n_rows)
        if logits is None:
            self._clear()
            raise DecodeError("llama.cpp computed no logits: this is no text generation model.")
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

    def _recover(self, status: int, n_tokens: int) -> None:
        """Put the cache in order after a failed decode, and raise."""
        n_cached = len(self._cached)
        aborted = status == _ABORTED
        if not (aborted and self._supports_rollback and self._cache.remove_from(n_cached)):
            self._clear()
        if aborted:
            self._stopped(n_tokens)
            raise DecodeInterruptedError("llama_decode was interrupted.")
        reason = _REASONS.get(status, f"it returned {status}")
        raise DecodeError(
            f"llama_decode failed on {n_tokens} tokens after {n_cached}: {reason}.",
            remedy="The log at debug level says more.",
        )

    def _clear(self) -> None:
        self._check_open()
        self._cache.clear()
        self._tree = None
        self._forks = []
        self._cached.clear()
