"""The tokens of one decode and the KV cache sequences that they belong to.

Sequence 0 is the text; the others are branches, which share the beginning of the text.  A cell of
the cache can belong to several sequences, so giving the text to a branch copies nothing.  A
branch gets it when a tree first needs the branch, and later trees add only the new part, since
each call visits every cell: some microseconds for a few thousand of them.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.backends.llama.tree_branches import TreeBranches

TEXT = 0
_EVERY_SEQUENCE = -1
_INT_POINTER = ctypes.POINTER(ctypes.c_int32)


class DecodeBatch:
    """A ``llama_batch`` in NumPy arrays; no memory is allocated per decode.

    A token's sequences are a range, so its sequence ids are a slice of one array.
    """

    def __init__(self, n_batch: int, n_branches: int) -> None:
        self._tokens = np.zeros(n_batch, dtype=np.intc)
        self._positions = np.zeros(n_batch, dtype=np.intc)
        self._outputs = np.zeros(n_batch, dtype=np.int8)
        # A few tokens are copied through memoryviews instead of NumPy, whose code a pass over the
        # weights has evicted from the CPU's caches.
        self._token_items = self._tokens.data
        self._position_items = self._positions.data
        self._output_items = self._outputs.data.cast("B")
        self._sequence_ids = np.arange(n_branches, dtype=np.intc)
        self._n_sequences = np.ones(n_batch, dtype=np.intc)
        self._id_addresses = np.full(n_batch, self._sequence_ids.ctypes.data, dtype=np.uintp)
        self._n_branched = 0
        """Number of leading tokens that may belong to other sequences than the text."""
        self.native: Any = llama.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(llama.llama_token_p),
            embd=None,
            pos=self._positions.ctypes.data_as(ctypes.POINTER(llama.llama_pos)),
            n_seq_id=self._n_sequences.ctypes.data_as(_INT_POINTER),
            seq_id=ctypes.cast(self._id_addresses.ctypes.data, ctypes.POINTER(_INT_POINTER)),
            logits=self._outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(self, tokens: Sequence[int], first_position: int, n_logits: int) -> None:
        """Put ``tokens`` at ``first_position`` of the text; the last ``n_logits`` give logits."""
        if self._n_branched:
            self._put_in([TEXT] * self._n_branched, [TEXT + 1] * self._n_branched)
            self._n_branched = 0
        self._fill(tokens, range(first_position, first_position + len(tokens)), n_logits)

    def fill_tree(
        self, pending: Sequence[int], nodes: Sequence[int], tree: TreeBranches, first_position: int
    ) -> None:
        """Put ``pending`` at ``first_position`` of all branches of ``tree``, then its nodes.

        The last pending token and all nodes give logits.
        """
        n_pending = len(pending)
        n_text = first_position + n_pending
        positions = [*range(first_position, n_text), *(n_text + depth for depth in tree.depths)]
        self._fill([*pending, *nodes], positions, 1 + len(nodes))
        self._put_in(
            [TEXT] * n_pending + tree.first_branches, [tree.n_branches] * n_pending + tree.ends
        )

    def fill_forks(
        self, tokens: Sequence[int], positions: Sequence[int], branches: Sequence[int]
    ) -> None:
        """Put one token into each of ``branches`` at its position; all give logits."""
        self._fill(tokens, positions, len(tokens))
        self._put_in(branches, [branch + 1 for branch in branches])

    def pad(self, n_padding: int, position: int) -> None:
        """Add copies of the last token to the text from ``position`` on.

        They give logits if all tokens do, since these rows are computed in groups, too.
        """
        start = self.native.n_tokens
        for n_before in range(n_padding):
            idx = start + n_before
            self._token_items[idx] = self._token_items[start - 1]
            self._position_items[idx] = position + n_before
            self._output_items[idx] = self._output_items[0]
        end = self.native.n_tokens = start + n_padding
        if self._n_branched > start:
            self._id_addresses[start:end] = self._sequence_ids.ctypes.data
            self._n_sequences[start:end] = 1

    def tokens(self, n_tokens: int) -> list[int]:
        """Return the first token ids as Python integers."""
        return self._token_items[:n_tokens].tolist()

    def _fill(self, tokens: Sequence[int], positions: Sequence[int], n_logits: int) -> None:
        n_tokens = len(tokens)
        self._token_items[:n_tokens] = array("i", tokens)
        self._position_items[:n_tokens] = array("i", positions)
        self._output_items[:n_tokens] = bytes(n_tokens - n_logits) + b"\1" * n_logits
        self.native.n_tokens = n_tokens

    def _put_in(self, firsts: Sequence[int], ends: Sequence[int]) -> None:
        """Put token i into the sequences ``firsts[i]`` up to but without ``ends[i]``."""
        n_tokens = len(firsts)
        offsets = np.array(firsts, dtype=np.uintp) * self._sequence_ids.itemsize
        self._id_addresses[:n_tokens] = self._sequence_ids.ctypes.data + offsets
        self._n_sequences[:n_tokens] = np.subtract(ends, firsts)
        self._n_branched = max(self._n_branched, n_tokens)


class BranchedCache:
    """The sequences of one context's memory, with the length of text that each branch holds."""

    def __init__(self, memory: Any, n_branches: int) -> None:
        self._memory = memory
        self._n_held = [0] * n_branches

    def clear(self) -> None:
        """Remove everything."""
        llama.llama_memory_clear(self._memory, False)  # data: the values need not be zeroed
        self._n_held = [0] * len(self._n_held)

    def remove_from(self, position: int) -> bool:
        """Remove the positions from ``position`` on in all sequences; return whether it worked."""
        sequence = _EVERY_SEQUENCE if len(self._n_held) > 1 else TEXT
        self._n_held = [min(n, position) for n in self._n_held]
        return bool(llama.llama_memory_seq_rm(self._memory, sequence, position, -1))

    def share(self, branch: int, n_text: int) -> None:
        """Make a branch hold exactly the text's first ``n_text`` positions."""
        n_held = self._n_held[branch]
        if n_held > n_text:
            self.cut(branch, n_text)
        elif n_held < n_text:
            llama.llama_memory_seq_cp(self._memory, TEXT, branch, n_held, n_text)
            self._n_held[branch] = n_text

    def cut(self, branch: int, n_text: int) -> None:
        """Remove a branch's positions from ``n_text`` on."""
        llama.llama_memory_seq_rm(self._memory, branch, n_text, -1)
        self._n_held[branch] = min(self._n_held[branch], n_text)

    def note_extended(self, n_branches: int, n_text: int) -> None:
        """Record that a decode put the text up to ``n_text`` into the first ``n_branches``."""
        for branch in range(1, n_branches):
            self._n_held[branch] = n_text

    def keep_path(self, tree: TreeBranches, path: Sequence[int], n_text: int) -> None:
        """Append ``path`` of a tree to the text of ``n_text`` positions; remove other nodes.

        A branch that shares the beginning of the path keeps that part.
        """
        if not path:
            self.remove_from(n_text)
            return
        source = tree.first_branches[path[-1]]
        n_shared = [0] * tree.n_branches
        for node in path:
            for branch in range(tree.first_branches[node], tree.ends[node]):
                n_shared[branch] += 1
        for branch, n_nodes in enumerate(n_shared):
            end = n_text + n_nodes
            llama.llama_memory_seq_rm(self._memory, branch, end, -1)
            if branch != TEXT:
                self._n_held[branch] = end
        if n_shared[TEXT] < len(path):
            begin, end = n_text + n_shared[TEXT], n_text + len(path)
            llama.llama_memory_seq_cp(self._memory, source, TEXT, begin, end)
