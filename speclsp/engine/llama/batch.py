"""The one batch that all decodes of a context use."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

from speclsp.engine.tree_branches import TreeBranches

_SEQUENCE = 0
_POSITION_POINTER = ctypes.POINTER(llama.llama_pos)
_INT_POINTER = ctypes.POINTER(ctypes.c_int32)


class DecodeBatch:
    """A ``llama_batch`` on NumPy's memory: nothing is allocated per decode.

    There are two of them on the same tokens: :attr:`native` for text, all in one sequence, and
    :attr:`native_tree` for trees, whose tokens belong to several.
    """

    def __init__(self, n_batch: int, n_ctx: int, n_branches: int) -> None:
        self._tokens = np.zeros(n_batch, dtype=np.intc)
        self._outputs = np.zeros(n_batch, dtype=np.int8)
        # Through these a few tokens are written and read without NumPy: after a pass over the
        # weights its code is in no cache any more, and takes longer than what it does.
        self._token_items = self._tokens.data
        self._output_items = self._outputs.data.cast("B")
        # Position p stands at index p, so that a batch's positions are a window of this array.
        self._positions = np.arange(n_ctx + n_batch, dtype=np.intc)
        self._position_address = self._positions.ctypes.data
        self._n_sequences = np.ones(n_batch, dtype=np.intc)
        self._sequence = np.full(1, _SEQUENCE, dtype=np.intc)
        sequence = self._sequence.ctypes.data_as(_INT_POINTER)
        self._sequences = (_INT_POINTER * n_batch)(*[sequence] * n_batch)
        self.native: Any = llama.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(llama.llama_token_p),
            embd=None,
            pos=self._positions.ctypes.data_as(_POSITION_POINTER),
            n_seq_id=self._n_sequences.ctypes.data_as(_INT_POINTER),
            seq_id=self._sequences,
            logits=self._outputs.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        # The field itself as a number: a cast for each decode takes longer than all the rest here.
        self._native_pos = ctypes.c_size_t.from_buffer(self.native, llama.llama_batch.pos.offset)
        # A node's branches are a range, so that its sequence ids are a window of this array.
        self._branches = np.arange(n_branches, dtype=np.intc)
        self._branch_address = self._branches.ctypes.data
        self._tree_positions = np.zeros(n_batch, dtype=np.intc)
        self._n_branches = np.zeros(n_batch, dtype=np.intc)
        self._branch_addresses = np.zeros(n_batch, dtype=np.uintp)
        self.native_tree: Any = llama.llama_batch(
            n_tokens=0,
            token=self.native.token,
            embd=None,
            pos=self._tree_positions.ctypes.data_as(_POSITION_POINTER),
            n_seq_id=self._n_branches.ctypes.data_as(_INT_POINTER),
            seq_id=ctypes.cast(self._branch_addresses.ctypes.data, ctypes.POINTER(_INT_POINTER)),
            logits=self.native.logits,
        )

    def fill(self, tokens: Sequence[int], first_position: int, n_logits: int) -> None:
        """Take ``tokens`` at ``first_position`` and on; the last ``n_logits`` give logits."""
        n_tokens = len(tokens)
        self._token_items[:n_tokens] = array("i", tokens)
        self._output_items[:n_tokens] = bytes(n_tokens - n_logits) + b"\1" * n_logits
        self.native.n_tokens = n_tokens
        window = self._position_address + first_position * self._positions.itemsize
        self._native_pos.value = window

    def fill_tree(
        self, pending: Sequence[int], nodes: Sequence[int], tree: TreeBranches, first_position: int
    ) -> None:
        """Take ``pending`` in all branches of ``tree`` at ``first_position``, then its nodes.

        The last pending token and all nodes give logits.
        """
        n_pending = len(pending)
        n_tokens = n_pending + len(nodes)
        n_text = first_position + n_pending
        self._tokens[:n_pending] = pending
        self._tokens[n_pending:n_tokens] = nodes
        self._outputs[: n_pending - 1] = 0
        self._outputs[n_pending - 1 : n_tokens] = 1
        self._tree_positions[:n_pending] = np.arange(first_position, n_text)
        self._tree_positions[n_pending:n_tokens] = tree.depths
        self._tree_positions[n_pending:n_tokens] += n_text
        first_branches = np.array(tree.first_branches, dtype=np.uintp)
        self._n_branches[:n_pending] = tree.n_branches
        self._n_branches[n_pending:n_tokens] = tree.ends
        self._n_branches[n_pending:n_tokens] -= first_branches.astype(np.intc)
        self._branch_addresses[:n_pending] = self._branch_address
        self._branch_addresses[n_pending:n_tokens] = (
            self._branch_address + first_branches * self._branches.itemsize
        )
        self.native_tree.n_tokens = n_tokens

    def fill_forks(
        self, tokens: Sequence[int], positions: Sequence[int], branches: Sequence[int]
    ) -> None:
        """Take one token for each of ``branches``, at a position of its own; all give logits."""
        n_tokens = len(tokens)
        self._tokens[:n_tokens] = tokens
        self._outputs[:n_tokens] = 1
        self._tree_positions[:n_tokens] = positions
        self._n_branches[:n_tokens] = 1
        offsets = np.array(branches, dtype=np.uintp) * self._branches.itemsize
        self._branch_addresses[:n_tokens] = self._branch_address + offsets
        self.native_tree.n_tokens = n_tokens

    def tokens(self, n_tokens: int) -> list[int]:
        """The first ids as they went in, as plain integers, whatever sequence they came in."""
        return self._token_items[:n_tokens].tolist()
