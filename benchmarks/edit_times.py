"""The times of ``python -m benchmarks edits --rounds N``: a model is made to say recorded answers.

The prompt is in the KV cache beforehand, and every side's passes compute the same as if the model
chose the answer by itself.  What differs is who drafts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from benchmarks.decoding import DECODE_COLUMNS, Decoded, Decoder, rotated
from benchmarks.figures import Figures, figures_of, figures_table, ratio_table, side_named
from benchmarks.tables import Table
from speclsp.completer.loaded_models import make_proposer
from speclsp.decoding.sampling import LogitRow, Sampler
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.errors import SpecLspError
from speclsp.settings import Settings

OFF: Final = "no drafts"
OURS: Final = f"{REGION} + {SUFFIX}"
_SIDES: Final = {OFF: "", OURS: f"{REGION},{SUFFIX}", SUFFIX: SUFFIX}
_AS_UPSTREAM: Final = ("ngram-simple", "ngram-mod")
"""Drafters that verify whatever they draft, as in llama.cpp."""


class Answer(Protocol):
    """A recorded answer in a model's vocabulary."""

    @property
    def prompt(self) -> list[int]:
        """The tokens of its prompt."""

    @property
    def truth(self) -> list[int]:
        """The tokens of the answer."""


_Answer = TypeVar("_Answer", bound=Answer)


class ForcedSampler:
    """Chooses the tokens of a text, whatever the logits say."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = iter(tokens)

    def sample(self, row: LogitRow) -> int:  # noqa: ARG002
        """Return the next token of the text."""
        return next(self._tokens)


def timed_sides(
    answers: Sequence[_Answer],
    context_of: Callable[[_Answer], DraftContext],
    decoder: Decoder,
    n_rounds: int,
    progress: Callable[[str], None],
) -> list[Figures]:
    """Have the model say the answers that fit its context with each side's drafts, in turn.

    Each answer is in one of the rounds.
    """
    proposers = dict(_proposers(decoder))
    n_ctx = decoder.weights.target.n_ctx
    fitting = [one for one in answers if len(one.prompt) + len(one.truth) < n_ctx]
    if len(fitting) < n_rounds:
        raise SpecLspError(
            f"{len(fitting)} of {len(answers)} answers fit the context of {n_ctx} tokens.",
            remedy="Raise `--ctx-size`, or lower `--rounds`.",
        )
    rounds: dict[str, list[list[Decoded]]] = {name: [] for name in proposers}
    for idx in range(n_rounds):
        found: dict[str, list[Decoded]] = {name: [] for name in proposers}
        for n_done, one in enumerate(fitting[idx::n_rounds]):
            context = context_of(one)
            decoder.complete(context, 1, None, ForcedSampler(one.truth))
            for name in (list(proposers)[place] for place in rotated(len(proposers), n_done)):
                progress(name)
                sampler: Sampler = ForcedSampler(one.truth)
                answer = decoder.complete(context, len(one.truth), proposers[name], sampler)
                found[name].append(Decoded(stats=answer.stats, is_same=True))
        for name, decoded in found.items():
            rounds[name].append(decoded)
    return [figures_of(name, DECODE_COLUMNS, of_side) for name, of_side in rounds.items()]


def time_tables(sides: Sequence[Figures]) -> list[Table]:
    """Return each side's figures, and the ratio of ours to the others."""
    shown = [column for column in DECODE_COLUMNS if column.name in {"tokens_per_s", "host_ms"}]
    title = "Recorded answers, said by the model"
    return [
        figures_table(title, DECODE_COLUMNS, sides),
        ratio_table(f"{OURS} / the others", shown, sides, side_named(sides, OURS)),
    ]


def _proposers(decoder: Decoder) -> Iterator[tuple[str, Proposer | None]]:
    def made(settings: Settings, drafters: str) -> Proposer | None:
        table = AcceptanceTable()
        return make_proposer(settings, decoder.weights, table, _raise, drafters)

    for name, drafters in _SIDES.items():
        yield name, made(decoder.settings, drafters) if drafters else None
    for name in _AS_UPSTREAM:
        yield (
            f"{name}, as llama.cpp",
            made(dataclasses.replace(decoder.settings, mode="first"), name),
        )


def _raise(problem: SpecLspError) -> None:
    raise problem
