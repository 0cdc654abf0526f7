"""Looks at two clocks after each of the target's decodes: the wall's, and that of llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

from speclsp.decoding.protocol import Logits, TreeTarget
from speclsp.drafting.protocol import ModelDrafter


@dataclass(slots=True)
class StepClock:
    """Stands between the loop and its target, and notes both clocks after each decode."""

    target: TreeTarget
    draft: ModelDrafter | None
    """Whose decodes are none of the host's work either."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """(wall clock, time inside llama.cpp) in nanoseconds after each of the target's decodes."""

    @property
    def n_ctx(self) -> int:
        """The target's."""
        return self.target.n_ctx

    @property
    def n_batch(self) -> int:
        """The target's."""
        return self.target.n_batch

    @property
    def n_ubatch(self) -> int:
        """The target's."""
        return self.target.n_ubatch

    @property
    def n_vocab(self) -> int:
        """The target's."""
        return self.target.n_vocab

    @property
    def ns_native(self) -> int:
        """The target's."""
        return self.target.ns_native

    @property
    def cached(self) -> Sequence[int]:
        """The target's."""
        return self.target.cached

    def truncate(self, n_tokens: int) -> None:
        """Have the target do it."""
        self.target.truncate(n_tokens)

    def decode(self, tokens: Sequence[int], n_logits: int) -> Logits:
        """Have the target do it, and look at the clocks."""
        logits = self.target.decode(tokens, n_logits)
        self._mark()
        return logits

    @property
    def supports_trees(self) -> bool:
        """The target's."""
        return self.target.supports_trees

    @property
    def n_branches(self) -> int:
        """The target's."""
        return self.target.n_branches

    def decode_tree(
        self, pending: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
    ) -> Logits:
        """Have the target do it, and look at the clocks."""
        logits = self.target.decode_tree(pending, tokens, parents)
        self._mark()
        return logits

    def keep_path(self, path: Sequence[int]) -> None:
        """Have the target do it."""
        self.target.keep_path(path)

    def _mark(self) -> None:
        ns_native = self.target.ns_native + (self.draft.ns_native if self.draft is not None else 0)
        self.marks.append((perf_counter_ns(), ns_native))
