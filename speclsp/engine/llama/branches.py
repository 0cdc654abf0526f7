"""A KV cache with sequences: 0 is the text, the others are branches that share its beginning.

A cell belongs to any number of sequences, so a branch's copy of the text is bookkeeping only.  It
is made when a tree first needs the branch and extended by what is new with each further tree, since
each call looks at every cell: some microseconds for a few thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_cpp import llama_cpp as llama

from speclsp.engine.tree_branches import TreeBranches

TEXT = 0
_EVERY_SEQUENCE = -1


class BranchedCache:
    """The sequences of one context's memory, and how much of the text each branch holds."""

    def __init__(self, memory: Any, n_branches: int) -> None:
        self._memory = memory
        self.n_branches = n_branches
        """Sequences of the memory, the text's among them."""
        self._n_held = [0] * n_branches

    def clear(self) -> None:
        """Forget everything."""
        llama.llama_memory_clear(self._memory, False)  # data: the values may stay, unreachable
        self._n_held = [0] * self.n_branches

    def remove_from(self, position: int) -> bool:
        """Forget all positions from ``position`` on, in all sequences; whether that worked."""
        sequence = _EVERY_SEQUENCE if self.n_branches > 1 else TEXT
        self._n_held = [min(n, position) for n in self._n_held]
        return bool(llama.llama_memory_seq_rm(self._memory, sequence, position, -1))

    def branch_off(self, n_branches: int, n_text: int) -> None:
        """Give the first ``n_branches`` branches the text's ``n_text`` positions."""
        for branch in range(1, n_branches):
            n_held = self._n_held[branch]
            if n_held < n_text:
                llama.llama_memory_seq_cp(self._memory, TEXT, branch, n_held, n_text)
                self._n_held[branch] = n_text

    def fork(self, branch: int, n_text: int) -> None:
        """Let a branch hold the text's first ``n_text`` positions and nothing else."""
        if self._n_held[branch] > n_text:
            self.end_fork(branch, n_text)
        elif self._n_held[branch] < n_text:
            held = self._n_held[branch]
            llama.llama_memory_seq_cp(self._memory, TEXT, branch, held, n_text)
            self._n_held[branch] = n_text

    def end_fork(self, branch: int, n_text: int) -> None:
        """Take from a branch what lies behind the text's first ``n_text`` positions."""
        llama.llama_memory_seq_rm(self._memory, branch, n_text, -1)
        self._n_held[branch] = min(self._n_held[branch], n_text)

    def extended(self, n_branches: int, n_text: int) -> None:
        """Note that the first ``n_branches`` branches got the text up to ``n_text`` directly."""
        for branch in range(1, n_branches):
            self._n_held[branch] = n_text

    def keep_path(self, tree: TreeBranches, path: Sequence[int], n_text: int) -> None:
        """Make ``path`` of a tree behind ``n_text`` positions text; forget the rest of the tree.

        A branch that shares the path's beginning keeps that much of it.
        """
        if not path:
            self.remove_from(n_text)
            return
        last = path[-1]
        source = tree.first_branches[last]
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
