"""``speclsp models check``: whether a model completes, takes tokens back and speculates properly.

What it prints is meant to be sent with a report about a model that is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

import speclsp
from speclsp.backends.weights import LlamaLoader, Tokenizer, Weights
from speclsp.cli.doctor import Finding
from speclsp.completer.loaded_models import make_proposer
from speclsp.decoding.sampling import GreedySampler, LogitRow
from speclsp.decoding.speculate import Generation, generate
from speclsp.decoding.target import Target
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.drafter import DraftContext
from speclsp.drafting.proposer import Proposer
from speclsp.embedded import model_files
from speclsp.errors import SpecLspError
from speclsp.prompt.chunks import NO_CHUNKS
from speclsp.prompt.families import (
    REWRITING_REMARK,
    REWRITING_REMEDY,
    prompt_text,
    rewrites_regions,
)
from speclsp.prompt.healing import HealingSampler, healing_prefix
from speclsp.prompt.prompt import FimText, PromptBudget, PromptLayout
from speclsp.reporting.gain import tokens_per_pass
from speclsp.reporting.session import summed
from speclsp.seam.events import LogLevel
from speclsp.seam.statistics import RequestStats
from speclsp.settings import Settings

_N_PLACES: Final = 10
_BUDGET_S: Final = 45.0
"""Seconds in which another place must fit to be tried.  Loading and the first place are in any
case: at most 640 tokens of prompts and 65 passes, half a minute where a token takes 150 ms alone
and 15 ms in a prompt, as with Qwen2.5-Coder 1.5B Q4_K_M on two slow cores."""
_N_PREDICT: Final = 24
_N_HEALED: Final = 8
_N_PROMPT: Final = 256
_N_WRONG: Final = 8
"""Tokens of a draft that is taken back."""
_NEARLY_EVEN: Final = 0.1
"""Gap between the two best logits below which a batch's shape may decide which is the best."""
_REPORT: Final = "Please report it, with all these lines and the model's name."


@dataclass(frozen=True, slots=True)
class _Place:
    """A cursor in a source file."""

    path: str
    prefix: str
    suffix: str


@dataclass(slots=True)
class _Gaps:
    """Takes the most probable tokens, and keeps the gaps to the second best ones."""

    gaps: list[float] = field(default_factory=list)

    def sample(self, row: LogitRow) -> int:
        """Return the token that follows, given its logits, shape [n_vocab]."""
        second, best = np.partition(row, row.size - 2)[-2:]
        self.gaps.append(float(best - second))
        return int(row.argmax())


Progress = Callable[[int, int], None]
"""Takes the number of places that were tried, and of all."""


def check_model(
    settings: Settings,
    progress: Progress = lambda _done, _all: None,
    clock: Callable[[], float] = perf_counter,
) -> Iterator[Finding]:
    """Load the model that the settings name, and check it.

    Other places follow the first one while the next fits in ``_BUDGET_S`` seconds by ``clock``.
    Raises :class:`~speclsp.errors.SpecLspError` where it cannot be loaded.
    """
    started = clock()
    log: list[tuple[LogLevel, str]] = []
    loader = LlamaLoader(lambda _level, _line: None)
    tokenizer = loader.tokenizer(settings)
    path = model_files(settings).target
    yield from _family(path, tokenizer)
    weights = loader.weights(
        settings, tokenizer, lambda _share: True, lambda level, line: log.append((level, line))
    )
    try:
        for level, line in log:
            remedy = "docs/gpu.md and docs/models.md have the remedies." * (level == "warning")
            yield Finding("loading", line, remedy)
        places = _places()
        prompts = [_prompt(tokenizer, place) for place in places]
        yield _round_trip(tokenizer, prompts[0])
        yield _rollback(weights, prompts[0])
        healing, speculation = _Healing(), _Speculation(settings, weights)
        yield from speculation.problems
        longest_s = 0.0
        for n_done, (place, tokens) in enumerate(prompts):
            begun = clock()
            if n_done and begun - started + longest_s > _BUDGET_S:
                break
            progress(n_done, len(prompts))
            healing.try_at(place, tokenizer, weights)
            speculation.try_at(place, tokens, tokenizer)
            longest_s = max(longest_s, clock() - begun)
        yield healing.finding()
        yield from speculation.findings()
    finally:
        weights.close()


def _family(path: Path, tokenizer: Tokenizer) -> Iterator[Finding]:
    family, vocabulary = tokenizer.family, tokenizer.vocabulary
    architecture = vocabulary.metadata.get("general.architecture", "unknown")
    yield Finding(
        "model",
        f"{path.name}: {vocabulary.metadata.get('general.name', 'without a name')}, "
        f"architecture {architecture}, {vocabulary.n_tokens} tokens",
    )
    tokens = ", ".join(f"{name} = {token}" for token, name in family.names.items())
    text = f"{family.name}, found by {family.found_by}: {tokens}"
    if rewrites_regions(path.name):
        yield Finding("family", f"{text}; but {REWRITING_REMARK}", REWRITING_REMEDY)
    else:
        yield Finding("family", text)
    ends = ", ".join(sorted(family.end_names)) or "none by name"
    yield Finding("ends", f"{ends}; {len(family.end_tokens)} tokens in all")


def _places() -> list[_Place]:
    """Cut speclsp's own modules, which are there wherever it is installed, at half words."""
    folder = Path(speclsp.__file__).parent
    places = []
    for number, path in enumerate(sorted((folder / "prompt").glob("*.py")) * 2):
        text = path.read_text(encoding="utf-8")
        lines = [m for m in text.splitlines(keepends=True) if m.strip()]
        if len(lines) < 2 * _N_PLACES:
            continue
        line = next(
            line for line in lines[len(lines) * (2 + number % 7) // 10 :] if len(line.strip()) > 12
        )
        start = text.index(line)
        cursor = start + len(line) - len(line.lstrip()) + len(line.strip()) // 2
        end = text.find("\n", cursor)
        places.append(_Place(f"speclsp/prompt/{path.name}", text[:cursor], text[end:]))
    return places[:_N_PLACES]


def _prompt(tokenizer: Tokenizer, place: _Place) -> tuple[_Place, tuple[int, ...]]:
    layout = PromptLayout(
        family=tokenizer.family, vocabulary=tokenizer.vocabulary, layout="anchored"
    )
    text = FimText(repo_name="speclsp", path=place.path, prefix=place.prefix, suffix=place.suffix)
    budget = PromptBudget(n_prompt=_N_PROMPT, n_chunks=0)
    return place, layout.fresh(text, budget, near=None, chunks=NO_CHUNKS).tokens


def _round_trip(tokenizer: Tokenizer, prompt: tuple[_Place, tuple[int, ...]]) -> Finding:
    """Whether a prompt's tokens are the text that they stand for."""
    place, tokens = prompt
    text = prompt_text(tokens, tokenizer.vocabulary, tokenizer.family)
    near = place.prefix.rpartition("\n")[2]
    missing = [part for part in (near, place.suffix[:80]) if part not in text]
    if missing:
        return Finding("round trip", f"the prompt lacks {missing[0]!r}: {text[-200:]!r}", _REPORT)
    return Finding("round trip", f"{len(tokens)} tokens spell what is around the cursor")


@dataclass(slots=True)
class _Healing:
    """Whether texts begin with what the prompt leaves out."""

    n_places: int = 0
    wrong: list[str] = field(default_factory=list)

    def try_at(self, place: _Place, tokenizer: Tokenizer, weights: Weights) -> None:
        """Complete the half word before a cursor."""
        self.n_places += 1
        line = place.prefix.rpartition("\n")[2]
        typed = healing_prefix(tokenizer.prefixes, line)
        shorter = _Place(place.path, place.prefix.removesuffix(typed), place.suffix)
        sampler = HealingSampler(GreedySampler(), tokenizer.prefixes, tokenizer.vocabulary, typed)
        found = _run(
            weights.target, DraftContext(prompt=_prompt(tokenizer, shorter)[1]), None, sampler
        )
        pieces = b"".join(tokenizer.vocabulary.piece(token) for token in found.tokens)
        if not pieces.startswith(typed.encode()):
            self.wrong.append(typed)

    def finding(self) -> Finding:
        """Return what was found at all places."""
        if self.wrong:
            return Finding("healing", f"{self.wrong[0]!r} was not repeated", _REPORT)
        places = f"{self.n_places} of {self.n_places} places"
        return Finding("healing", f"half words are completed at {places}")


def _rollback(weights: Weights, prompt: tuple[_Place, tuple[int, ...]]) -> Finding:
    """Whether the logits after a draft that was taken back are those without it."""
    target, tokens = weights.target, list(prompt[1])
    target.truncate(0)
    _fill(target, tokens)
    alone = target.decode(tokens[-1:], 1)[0].copy()
    target.truncate(len(tokens) - 2)
    _fill(target, [*tokens[len(target.cached) : -1]])
    n_wrong = min(_N_WRONG, target.max_draft)
    target.decode([tokens[-2], *tokens[:n_wrong]], n_wrong + 1)
    target.truncate(len(tokens) - 1)
    pending = tokens[len(target.cached) :]
    again = target.decode(pending, 1)[0]
    difference = float(np.abs(again - alone).max())
    how = f"{target.max_draft} tokens at most; logits differ by {difference:.2g}"
    if len(pending) > 1:
        how += f"; {len(pending) - 1} right ones are evaluated again"
    is_same = int(alone.argmax()) == int(again.argmax()) or difference < _NEARLY_EVEN
    return Finding("rollback", how, "" if is_same else _REPORT)


def _fill(target: Target, tokens: Sequence[int]) -> None:
    """Evaluate all tokens but the last."""
    for start in range(0, len(tokens) - 1, target.n_ubatch):
        target.decode(tokens[start : min(start + target.n_ubatch, len(tokens) - 1)], 0)


class _Speculation:
    """Whether drafts change nothing, and what they save."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        errors: list[SpecLspError] = []
        self._weights = weights
        self._proposer = make_proposer(settings, weights, AcceptanceTable(), errors.append)
        self.problems = [Finding("drafting", error.message, error.remedy) for error in errors]
        self._n_places = 0
        self._sums = {False: RequestStats(), True: RequestStats()}
        self._seconds = {False: 0.0, True: 0.0}
        self._nearly_even: list[float] = []
        self._uneven: list[float] = []

    def try_at(self, place: _Place, tokens: tuple[int, ...], tokenizer: Tokenizer) -> None:
        """Complete at a place without drafts and with them."""
        self._n_places += 1
        weights = self._weights
        context = DraftContext(
            prompt=tokens,
            prefix=tokenizer.vocabulary.tokenize(place.prefix),
            suffix=tokenizer.vocabulary.tokenize(place.suffix),
            verify_curve=weights.pass_cost.curve,
            single_s=weights.pass_cost.single_s,
        )
        sampler = _Gaps()
        texts = {}
        for drafts, one in ((False, sampler), (True, GreedySampler())):
            # Both go on from the same keys and values, and evaluate the last token anew.
            started = perf_counter()
            found = _run(weights.target, context, self._proposer if drafts else None, one)
            self._seconds[drafts] += perf_counter() - started - found.stats.ms_prompt / 1000
            weights.pass_cost.learn(found.pass_times)
            self._sums[drafts] = summed(self._sums[drafts], found.stats)
            texts[drafts] = found.tokens
        pairs = zip(sampler.gaps, texts[False], texts[True], strict=True)
        gap = next((gap for gap, alone, drafted in pairs if alone != drafted), None)
        if gap is not None:
            (self._nearly_even if gap < _NEARLY_EVEN else self._uneven).append(gap)

    def findings(self) -> Iterator[Finding]:
        """Yield what was found at all places."""
        n_same = self._n_places - len(self._nearly_even) - len(self._uneven)
        same = f"the text is the same at {n_same} of {self._n_places} places"
        if self._nearly_even:
            same += (
                f", and differs at {len(self._nearly_even)} where two tokens were nearly as "
                "probable"
            )
        if self._uneven:
            most = max(self._uneven)
            yield Finding("drafts", f"{same}; logits {most:.2f} apart changed places", _REPORT)
        else:
            yield Finding("drafts", same)
        rates = {
            drafts: (one.n_predicted - one.n_prefill_predicted) / max(self._seconds[drafts], 1e-9)
            for drafts, one in self._sums.items()
        }
        drafted = self._sums[True]
        yield Finding(
            "speed",
            f"{rates[False]:.0f} tokens a second without drafts, {rates[True]:.0f} with "
            f"({tokens_per_pass(drafted):.2f} tokens a pass, "
            f"{drafted.n_accepted} of {drafted.n_drafted} draft tokens right)",
        )


def _run(
    target: Target,
    context: DraftContext,
    proposer: Proposer | None,
    sampler: GreedySampler | HealingSampler | _Gaps,
) -> Generation:
    """Generate as many tokens as a check looks at, whatever they are."""
    return generate(
        target,
        context,
        drafter=proposer,
        sampler=sampler,
        n_predict=_N_HEALED if isinstance(sampler, HealingSampler) else _N_PREDICT,
        stop=lambda _token: False,
        interrupted=lambda: None,
        clock=perf_counter,
    )


def verdict(findings: Sequence[Finding]) -> str:
    """Return the line that sums the findings up."""
    problems = [one.subject for one in findings if one.remedy]
    if not problems:
        return "The model completes, takes tokens back and speculates as it should."
    return f"Not as it should be: {', '.join(dict.fromkeys(problems))}."
