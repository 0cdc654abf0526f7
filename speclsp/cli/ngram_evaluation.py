"""What statistics are worth on texts: drafts without and with them, compared with the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from speclsp.drafting.chain import DrafterChain
from speclsp.drafting.ngram_cache import NgramCacheDrafter
from speclsp.drafting.ngram_statistics import NO_STATISTICS, Statistics
from speclsp.drafting.protocol import DraftContext, TokenArray
from speclsp.drafting.teacher_forcing import ReplayCounts, replay
from speclsp.ngrams.files import StatisticsFile

_STRETCH: Final = 512
"""Tokens that are gone through at once; what stands before them in the file is known."""

Compared = dict[str, ReplayCounts]
"""Counts by what the drafts came from."""


def compare(
    texts: Sequence[TokenArray],
    file: StatisticsFile,
    *,
    n_draft: int,
    n_tokens: int,
    progress: Callable[[float], bool],
) -> Compared:
    """Go through about ``n_tokens`` tokens of texts, without and with a file's statistics."""
    sources = (file.tables,)
    given = Statistics(static=sources) if file.role == "static" else Statistics(dynamic=sources)
    kinds = {"the text so far": NO_STATISTICS, f"and the {file.role} file": given}
    compared: Compared = {}
    for kind_idx, (name, statistics) in enumerate(kinds.items()):
        counts = compared.setdefault(name, ReplayCounts())
        stretches = list(_stretches(texts, n_tokens))
        for idx, (before, truth) in enumerate(stretches, 1):
            drafter = DrafterChain([NgramCacheDrafter(n_draft=n_draft)])
            context = DraftContext(prompt=(), prefix=before, statistics=statistics)
            replay(drafter, context, truth.tolist(), n_draft, counts)
            progress((kind_idx + idx / len(stretches)) / len(kinds))
    return compared


def comparison_table(compared: Compared) -> Table:
    """Return a row for each source of drafts.

    Hit rate is the share of passes with a draft, the last column the share of drafted tokens that
    were accepted.
    """
    table = Table(box=SIMPLE_HEAD)
    table.add_column("drafts from", overflow="fold")
    for column in ("tokens", "per pass", "hit rate", "drafted", "accepted", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for name, counts in compared.items():
        hit_rate = counts.n_draft_passes / counts.n_passes if counts.n_passes else 0.0
        table.add_row(
            name,
            f"{counts.n_tokens:,}",
            f"{counts.tokens_per_pass:.3f}",
            f"{hit_rate:.1%}",
            f"{counts.n_drafted:,}",
            f"{counts.n_accepted:,}",
            f"{counts.acceptance:.1%}",
        )
    return table


def _stretches(
    texts: Sequence[TokenArray], n_tokens: int
) -> Iterator[tuple[TokenArray, TokenArray]]:
    """Yield stretches of texts, each with what stands before it, evenly spread over all."""
    stretches = [
        (text[:start], text[start : start + _STRETCH])
        for text in texts
        for start in range(1, text.size, _STRETCH)
    ]
    n_in_all = sum(truth.size for _, truth in stretches)
    n_wanted = min(len(stretches), -(-n_tokens * len(stretches) // max(1, n_in_all)))
    for idx in range(n_wanted):
        yield stretches[idx * len(stretches) // n_wanted]
