"""The decoding loop's interface to target models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Shape [n, n_vocab]; a view that is valid until the next decode."""


class Target(Protocol):
    """One model context whose KV cache holds ``cached``."""

    @property
    def n_ctx(self) -> int:
        """Positions that the KV cache holds, the model's trained context at most."""

    @property
    def n_batch(self) -> int:
        """Most tokens of one decode call."""

    @property
    def n_ubatch(self) -> int:
        """Tokens that the backend computes at once; prefills are cancelled between them."""

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""

    @property
    def max_draft(self) -> int:
        """Most tokens of a draft that can be taken back; 0 where none can."""

    @property
    def ns_native(self) -> int:
        """Nanoseconds in the backend's decode since the start, the wait for logits included."""

    @property
    def cached(self) -> Sequence[int]:
        """The token ids that the KV cache holds, by position."""

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, or fewer, and remove the others.

        ``cached`` says how many were kept: fewer only where the model cannot take tokens back.
        """

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` to the cache and return the logits of the last ``n_logits`` of them.

        Row i of the result predicts what follows token ``len(tokens) - n_logits + i``.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty.
        """


@runtime_checkable
class TreeTarget(Target, Protocol):
    """A target that can evaluate a tree of tokens in one decode call, if its model supports it."""

    @property
    def n_branches(self) -> int:
        """Most leaves of a tree; 1 if the model's memory does not support branches."""

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Append ``pending`` to the cache, and evaluate a tree after it.

        Node i is ``tokens[i]`` and continues node ``parents[i]`` < i, or ``pending`` if that is -1.
        Row 0 of the result (shape [1 + n_nodes, n_vocab]) predicts what follows ``pending``, row
        1 + i what follows node i.  Nodes attend to their ancestors only.

        The next call, whichever it is, removes the tree, except what :meth:`keep_path` keeps.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty, and
        ValueError for a tree that does not fit batch, context or branches.
        """

    def keep_path(self, path: Sequence[int]) -> None:
        """Append the nodes ``path`` of the last tree to the cache, and remove the others.

        ``path`` leads from the root down; it may be empty.
        """


@runtime_checkable
class ForkTarget(TreeTarget, Protocol):
    """A target whose cache can be continued in several ways at once."""

    @property
    def n_free(self) -> int:
        """Unused positions of the KV cache, which all forks together can take."""

    def fork(self, lengths: Sequence[int]) -> None:
        """Begin forks: fork i shares the first ``lengths[i]`` positions of the cache.

        The cache itself does not change.  The next call that is not about forks removes them.
        Raises ValueError for ``n_branches`` or more forks, and for lengths beyond the cache.
        """

    def decode_forks(self, forks: Sequence[int], tokens: Sequence[int]) -> Logits:
        """Append ``tokens[j]`` to fork ``forks[j]``, all in one batch.

        Row j of the result (shape [n_forks, n_vocab]) predicts what follows in that fork.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty, and
        ValueError for unknown forks and for a full cache.
        """

    def drop_forks(self) -> None:
        """Remove all forks; the cache itself does not change."""


def fork_target(target: Target) -> ForkTarget | None:
    """Return ``target`` if it supports forks, else None."""
    return target if isinstance(target, ForkTarget) and target.n_branches > 1 else None


def tree_target(target: Target) -> TreeTarget | None:
    """Return ``target`` if it supports trees, else None."""
    return target if isinstance(target, TreeTarget) and target.n_branches > 1 else None
