"""Counts without a model: text by a human stands for the target's choices.

A proposer drafts, the draft is compared with the human's text, and the tokens that agree are
accepted with one more, as in a target pass.  Passes verify a fixed number of draft tokens free of
cost, so that the figures depend on the drafters alone and not on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.drafter import DraftContext, DraftTree
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.token_tree import path_along

FREE_CURVE: Final = VerifyCurve((1, 2), (1.0, 1.0))
"""The curve of passes that all take the same time."""


@dataclass(slots=True)
class ReplayCounts:
    """Sums over replayed cursors."""

    n_tokens: int = 0
    n_passes: int = 0
    n_draft_passes: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_single_passes: float = 0.0
    """The passes' time by the context's curve, in passes without a draft."""
    n_by_source: dict[str, int] = field(default_factory=dict)
    """Accepted tokens by drafter."""

    @property
    def tokens_per_pass(self) -> float:
        """Mean tokens per pass."""
        return self.n_tokens / self.n_passes if self.n_passes else 0.0

    @property
    def tokens_per_single_pass(self) -> float:
        """Mean tokens in the time of a pass without a draft, by the context's curve."""
        return self.n_tokens / self.n_single_passes if self.n_single_passes else 0.0

    @property
    def acceptance(self) -> float:
        """Share of the draft tokens that were accepted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Mean tokens per pass with a draft."""
        return 1.0 + self.n_accepted / self.n_draft_passes if self.n_draft_passes else 1.0


def replay(
    proposer: Proposer,
    context: DraftContext,
    truth: Sequence[int],
    n_draft: int,
    counts: ReplayCounts,
) -> None:
    """Replay one cursor with at most ``n_draft`` draft tokens per pass; adds to ``counts``."""
    proposer.begin(context)
    curve = context.verify_curve or FREE_CURVE
    emitted: list[int] = []
    while len(emitted) < len(truth):
        n_max = min(n_draft, len(truth) - len(emitted) - 1)
        tree = proposer.propose(emitted, n_max) if n_max > 0 else DraftTree()
        # The last token of a pass is the target's own.
        path = path_along(truth[len(emitted) : -1], tree)
        counts.n_passes += 1
        counts.n_single_passes += curve.ratio(len(tree.tokens) + 1)
        emitted += truth[len(emitted) : len(emitted) + len(path) + 1]
        if not tree.tokens:
            continue
        counts.n_draft_passes += 1
        counts.n_drafted += len(tree.tokens)
        counts.n_accepted += len(path)
        for node in path:
            source = tree.sources[node]
            counts.n_by_source[source] = counts.n_by_source.get(source, 0) + 1
        proposer.accept(path)
    counts.n_tokens += len(truth)
