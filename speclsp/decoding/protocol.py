"""What the decoding loop needs of a target model."""

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
        """Tokens that the backend computes at once: the grain of prefill cancellation."""

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""

    @property
    def ns_native(self) -> int:
        """Nanoseconds inside the backend's decode since the start, the wait for logits included."""

    @property
    def cached(self) -> Sequence[int]:
        """The token ids that the KV cache holds, by position."""

    def truncate(self, n_tokens: int) -> None:
        """Keep the first ``n_tokens`` positions, forget the rest."""

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Append ``tokens`` to the cache and return the logits of the last ``n_logits`` of them.

        Row i of the result predicts what follows token ``len(tokens) - n_logits + i``.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty.
        """


@runtime_checkable
class TreeTarget(Target, Protocol):
    """A target that can evaluate a tree of tokens in one decode call, if its model allows it."""

    @property
    def supports_trees(self) -> bool:
        """Whether :meth:`decode_tree` can be called: ``n_branches`` is 2 or more."""

    @property
    def n_branches(self) -> int:
        """Most leaves of a tree; 1 where the model's memory holds no branches."""

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Append ``pending`` to the cache, and hang a tree on it that is not part of the cache.

        Node i holds ``tokens[i]`` and continues node ``parents[i]`` < i, or ``pending`` where that
        is -1.  Row 0 of the result (shape [1 + n_nodes, n_vocab]) predicts what follows
        ``pending``, row 1 + i what follows node i.  Each sees its own ancestors only.

        The tree is forgotten with the next call, whichever that is, but for what
        :meth:`keep_path` keeps.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty, and
        ValueError for a tree that does not fit batch, context or branches.
        """

    def keep_path(self, path: Sequence[int]) -> None:
        """Append the nodes ``path`` of the last tree to the cache, and forget the rest of it.

        ``path`` leads from the root down; it may be empty.
        """


@runtime_checkable
class ForkTarget(TreeTarget, Protocol):
    """A target whose cache can be continued in several ways at once, each a token at a time."""

    @property
    def n_free(self) -> int:
        """Positions of the KV cache that hold nothing: what forks can grow by, all together."""

    def fork(self, lengths: Sequence[int]) -> None:
        """Begin forks: fork i shares the first ``lengths[i]`` positions of the cache.

        The cache itself stays as it is.  Forks are forgotten with the next call that is not about
        forks, whichever that is.
        Raises ValueError for as many forks as ``n_branches``, or lengths that the cache has not.
        """

    def decode_forks(self, forks: Sequence[int], tokens: Sequence[int]) -> Logits:
        """Append ``tokens[j]`` to fork ``forks[j]``, all in one batch.

        Row j of the result (shape [n_forks, n_vocab]) predicts what follows in that fork.
        Raises :class:`~speclsp.errors.DecodeError`, after which the cache is empty, and
        ValueError for forks that were not begun, or that have no room.
        """

    def drop_forks(self) -> None:
        """Forget all forks; the cache itself stays as it is."""


def fork_target(target: Target) -> ForkTarget | None:
    """Return ``target`` as one that can be forked; None where it cannot."""
    return target if isinstance(target, ForkTarget) and target.supports_trees else None


def tree_target(target: Target) -> TreeTarget | None:
    """Return ``target`` as one that evaluates trees; None where it cannot."""
    return target if isinstance(target, TreeTarget) and target.supports_trees else None
