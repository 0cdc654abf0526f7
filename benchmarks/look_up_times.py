"""Times of look-ups in an index: what is looked up, and how the times are spread."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple

import numpy as np

from benchmarks.source_corpus import SourceCorpus
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.token_index import DEPTH
from speclsp.project.corpus import Corpus

_N_LOOK_UPS: Final = 4_000
_N_WARM_UP: Final = 200
_N_DRAFTED: Final = 15
_TAIL_TOKENS: Final = 64
_TYPED_TOKENS: Final = 8


class Quantiles(NamedTuple):
    """Microseconds."""

    p50: float
    p95: float
    p99: float
    slowest: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> Quantiles:
        """Take them from measured times."""
        p50, p95, p99 = (np.percentile(nanoseconds, [50, 95, 99]) / 1000).tolist()
        return cls(p50, p95, p99, max(nanoseconds) / 1000)


def measure_look_up(corpus: Corpus, tails: Sequence[TokenArray]) -> Quantiles:
    """Time look-ups of matches of any length."""
    for tail in tails[:_N_WARM_UP]:
        corpus.continuation(tail, 1, DEPTH, _N_DRAFTED)
    return Quantiles.of([look_up_ns(corpus, tail) for tail in tails])


def look_up_ns(corpus: Corpus, tail: TokenArray) -> int:
    """Time one look-up in nanoseconds."""
    start_ns = perf_counter_ns()
    corpus.continuation(tail, 1, DEPTH, _N_DRAFTED)
    return perf_counter_ns() - start_ns


def typed_tails(corpus: SourceCorpus, random: np.random.Generator) -> list[TokenArray]:
    """Ends of texts being typed: half new files, half indexed ones with a change just before."""
    known = [tokens for _, tokens in corpus.files]
    sources = [
        [tokens for tokens in group if len(tokens) > _TAIL_TOKENS]
        for group in (corpus.held_out, known)
    ]
    tails: list[TokenArray] = []
    for number in range(_N_LOOK_UPS):
        choices = sources[number % 2] or sources[1]
        tokens = choices[int(random.integers(len(choices)))]
        end = int(random.integers(_TAIL_TOKENS, len(tokens)))
        tail = tokens[end - _TAIL_TOKENS : end].copy()
        if number % 2:
            tail[-int(random.integers(1, _TYPED_TOKENS))] = random.choice(tokens)
        tails.append(tail)
    return tails
