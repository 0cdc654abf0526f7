"""``python -m benchmarks edits``: what drafts are worth on answers that next-edit models gave.

The answers stand for the target's choices, so that the figures depend on the drafters alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.decoding import Decoder
from benchmarks.edit_times import time_tables, timed_sides
from benchmarks.figures import Figures
from benchmarks.machine import loaded_models, loaded_tokenizer
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.drafter import Draft, DraftContext, Drafter, TokenArray
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.region import NAME as REGION
from speclsp.drafting.region import RegionDrafter
from speclsp.drafting.registry import load_drafter
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.drafting.teacher_forcing import ReplayCounts, replay
from speclsp.edits.edit import repeated
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import Vocabulary
from tests.support.recorded_edits import RecordedAnswer, recorded_answers

CURVES: Final = {
    "GPU": VerifyCurve((1, 16, 32, 64), (1.0, 1.2, 1.45, 2.0)),
    "two cores": VerifyCurve((1, 2, 8, 12, 16, 32, 64), (1.0, 2.5, 4.1, 5.1, 5.6, 9.5, 17.0)),
}
"""T(k) / T(1): of a GPU that is limited by memory, and as measured on two CPU cores."""
_POINTER: Final = "pointer"
_ROWS: Final = (
    (REGION, SUFFIX),
    (REGION,),
    (SUFFIX,),
    (_POINTER,),
    ("prompt-lookup",),
    ("ngram-simple",),
    ("ngram-mod",),
)
_NEAR: Final = 4
"""Tokens that the pointer goes back before places further on come first."""
_LEAST_TOKENS: Final = 4
"""Shorter answers are left out."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Tokenised:
    answer: RecordedAnswer
    prompt: list[int]
    truth: list[int]
    regions: tuple[TokenArray, ...]


def run(
    settings: Settings,
    *,
    answers_path: Path,
    draft_sizes: tuple[int, ...],
    vocabulary_path: Path | None,
    n_rounds: int,
) -> Report:
    """Replay each recorded answer with the drafters of each row, by model and curve.

    With ``n_rounds`` the settings' model says them, and is timed.
    """
    if vocabulary_path is not None:
        vocabulary: Vocabulary = load_vocabulary(vocabulary_path)
    else:
        vocabulary = loaded_tokenizer(settings).vocabulary
    tokenised = [
        one
        for one in (_tokenised(answer, vocabulary) for answer in recorded_answers(answers_path))
        if len(one.truth) >= _LEAST_TOKENS
    ]
    models = sorted({one.answer.model for one in tokenised})
    table = Table(
        "tokens per pass / in the time of a pass without a draft",
        ["drafters, most tokens drafted, curve", *models],
        caption=f"{len(tokenised)} answers; learned probabilities are kept by model.",
    )
    figures: dict[str, Any] = {}
    for curve_name, curve in CURVES.items():
        for n_draft in draft_sizes:
            for names in _ROWS:
                counts = {model: ReplayCounts() for model in models}
                tables = {model: AcceptanceTable() for model in models}
                for one in tokenised:
                    model = one.answer.model
                    proposer = _proposer(names, settings, n_draft, tables[model])
                    context = _context(one, vocabulary, curve)
                    replay(proposer, context, one.truth, n_draft, counts[model])
                row = f"{' + '.join(names)}, {n_draft}, {curve_name}"
                figures[row] = counts
                table.add(row, *(_cell(counts[model]) for model in models))
    if not n_rounds:
        return Report([table], figures)
    sides = _timed(settings, answers_path, n_rounds)
    return Report([table, *time_tables(sides)], {**figures, "times": sides})


def _timed(settings: Settings, answers_path: Path, n_rounds: int) -> list[Figures]:
    """Have the settings' model say the answers, in its own vocabulary."""
    with RunProgress() as progress, loaded_models(settings) as (tokenizer, weights):
        vocabulary = tokenizer.vocabulary
        task = progress.add_task("Decoding", total=None)
        return timed_sides(
            [_tokenised(one, vocabulary) for one in recorded_answers(answers_path)],
            lambda one: _context(one, vocabulary, None),
            Decoder(settings, tokenizer, weights),
            n_rounds,
            lambda name: progress.update(task, description=name, advance=1),
        )


def _cell(counts: ReplayCounts) -> str:
    return f"{counts.tokens_per_pass:.2f} / {counts.tokens_per_single_pass:.2f}"


def _tokenised(answer: RecordedAnswer, vocabulary: Vocabulary) -> _Tokenised:
    one, prompt = answer.edit_format, answer.prompt
    texts = [one.answer(prompt, prompt.old)]
    for change in answer.changes[-1:]:
        again = repeated(prompt.old, change)
        if again is not None and again.startswith(prompt.prefill):
            texts.append(one.answer(prompt, again))
    control = (*one.control, "<|endoftext|>")
    return _Tokenised(
        answer,
        _tokens(answer.sent, vocabulary, control),
        _tokens(answer.answer, vocabulary, control),
        tuple(np.array(_tokens(text, vocabulary, control), dtype=np.int32) for text in texts),
    )


def _tokens(text: str, vocabulary: Vocabulary, control: Sequence[str]) -> list[int]:
    """Tokenise a text; the names of special tokens in it stand for these."""
    for name in control:
        before, found, after = text.partition(name)
        token = vocabulary.special(name) if found else None
        if token is not None:
            return [
                *_tokens(before, vocabulary, control),
                token,
                *_tokens(after, vocabulary, control),
            ]
    return vocabulary.tokenize(text).tolist() if text else []


def _context(one: _Tokenised, vocabulary: Vocabulary, curve: VerifyCurve | None) -> DraftContext:
    return DraftContext(
        prompt=one.prompt,
        prefix=np.array(one.prompt, dtype=np.int32),
        regions=one.regions,
        ends_line=_ends_line(vocabulary),
        verify_curve=curve,
        n_vocab=vocabulary.n_tokens,
        n_branches=8,
    )


def _ends_line(vocabulary: Vocabulary) -> Callable[[int], bool]:
    return lambda token: vocabulary.piece(token).endswith(b"\n")


def _proposer(
    names: Sequence[str], settings: Settings, n_draft: int, table: AcceptanceTable
) -> Proposer:
    """Return the drafters as they draft alone, or merged into a tree."""
    if names == (_POINTER,):
        return DraftMerger([_Pointer(n_draft)])
    own = [_own_drafter(name, n_draft, table) for name in names]
    drafters = [one for one in own if one is not None]
    if drafters:
        return DraftMerger(drafters, table, mode="tree", n_max=n_draft)
    return DraftMerger([load_drafter(names[0], dataclasses.replace(settings, max_draft=n_draft))])


def _own_drafter(name: str, n_draft: int, table: AcceptanceTable) -> Drafter | None:
    if name == REGION:
        return RegionDrafter(n_draft=n_draft)
    return SuffixDrafter(n_draft=n_draft, table=table) if name == SUFFIX else None


class _Pointer:
    """A plain copier for comparison: a pointer into the region, realigned after one token.

    It goes on at the nearest place of the last token, and always drafts all it may.
    """

    name = _POINTER

    def __init__(self, n_draft: int) -> None:
        self._n_draft = n_draft

    def begin(self, context: DraftContext) -> None:
        self._old: list[int] = context.regions[0].tolist()
        self._place: int | None = 0
        self._n_followed = 0

    def draft(self, generated: Sequence[int], n_max: int) -> Draft:
        for token in generated[self._n_followed :]:
            self._follow(token)
        self._n_followed = len(generated)
        if self._place is None:
            return Draft()
        n_tokens = min(n_max, self._n_draft)
        return Draft(tuple(self._old[self._place : self._place + n_tokens]))

    def accept(self, n_accepted: int, n_verified: int) -> None:
        pass

    def _follow(self, token: int) -> None:
        place, old = self._place or 0, self._old
        if self._place is not None and old[place : place + 1] == [token]:
            self._place = place + 1
            return
        same = [at for at, one in enumerate(old) if one == token]
        self._place = 1 + min(
            same,
            key=lambda at: (at < place - _NEAR, abs(at - place), -at),
            default=-2,
        )
        if self._place < 0:
            self._place = None
