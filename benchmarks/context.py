"""``python -m benchmarks context``: which parts of a prompt make a human's text likelier.

Of each text a part is typed, up to the start of a line.  The prompt is laid out there in several
ways, and the model reads what the human wrote next; nothing is generated.  One evaluation tells of
every token how likely it is and whether the greedy choice is that token: from any place on, the
greedy text is the human's up to the first choice that differs.

A folder is a repository whose commits are typed, so that there are recent edits; a file of cases
has functions, without any.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import EditCase, load_cases
from benchmarks.commit_places import commit_places
from benchmarks.machine import loaded_models
from benchmarks.point_records import PointsError
from benchmarks.points import drawn_points, without_body
from benchmarks.progress import RunProgress
from benchmarks.report import Report
from benchmarks.tables import Table
from speclsp.backends.weights import Tokenizer
from speclsp.common_ends import common_head
from speclsp.decoding.target import Target
from speclsp.embedded import model_files
from speclsp.project.ignore import IgnoreRules
from speclsp.project.scan import ScanTally, scan
from speclsp.project.source_text import read_source
from speclsp.prompt import excerpts
from speclsp.prompt import prompt as prompt_module
from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk, renewed_chunks
from speclsp.prompt.context.candidates import definition_candidates, ranked
from speclsp.prompt.context.definitions import DefinitionTable, outline_of
from speclsp.prompt.families import FimFamily
from speclsp.prompt.prompt import FimText, PromptBudget, PromptLayout
from speclsp.prompt.template import FieldPart, TokenPart
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.request import PlacedRequest
from speclsp.settings import Settings

_N_SCORED: Final = 128
"""Tokens of the human's text that are read, at most."""
_N_SAMPLES: Final = 2_000
_CHARS_PER_TOKEN: Final = 3
"""As the choice of context counts what the prompt shows."""
_ALL: Final = 1_000_000
"""More lines than a file has."""
_THRESHOLDS: Final = np.log(np.linspace(0.02, 0.98, 49))
_THRESHOLD: Final = 14
"""Index of 0.3, the default of `min_probability`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to lay out prompts."""

    kinds: str = "ed"
    """Of other files: e for recent edits, d for definitions."""
    share: float = 0.25
    """Of the prompt, for other files."""
    n_prompt: int = 1024
    suffix_share: float = prompt_module.SUFFIX_SHARE
    """Of the rest, for the text after the cursor."""
    n_before: int = _ALL
    n_after: int = _ALL
    """Lines of the file that the prompt may show."""
    has_names: bool = True
    """Whether it names repository and path."""
    n_above: int = excerpts.N_LINES_ABOVE
    """Lines between the anchor and the cursor's line, at most."""


VARIANTS: Final[Mapping[str, Variant]] = {
    "today": Variant(),
    "no other files": Variant(kinds=""),
    "edits": Variant(kinds="e"),
    "definitions": Variant(kinds="d"),
    "share 1/8": Variant(share=0.125),
    "share 1/2": Variant(share=0.5),
    "512 tokens": Variant(n_prompt=512),
    "2048 tokens": Variant(n_prompt=2048),
    "no names": Variant(has_names=False),
    "suffix 0": Variant(suffix_share=0.0),
    "suffix 1/16": Variant(suffix_share=0.0625),
    "suffix 1/8": Variant(suffix_share=0.125),
    "suffix 1/2": Variant(suffix_share=0.5),
    "40 lines before": Variant(n_before=40),
    "anchor at the line": Variant(n_above=0),
    "anchor a line above": Variant(n_above=1),
    "anchor two lines above": Variant(n_above=2),
    "plain, 120 and 40 lines": Variant(
        kinds="", n_before=120, n_after=40, has_names=False, n_above=0
    ),
}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What the model made of the human's text behind one prompt."""

    case: str
    project: str
    language_id: str
    variant: str
    n_prompt: int
    n_context: int
    """Tokens from other files."""
    pieces: tuple[str, ...]
    logprobs: tuple[float, ...]
    """Of the human's tokens."""
    greedy: tuple[float, ...]
    """Log-probabilities of the likeliest tokens; a human's token is greedy where they are equal."""


# --- prompts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cursor in a text that is being typed, and the project's files without the text."""

    case: EditCase
    n_typed: int
    texts: Mapping[str, str]
    edits: Sequence[ContextChunk] = ()

    @property
    def human(self) -> str:
        """What comes next."""
        return self.case.typed[self.n_typed :]

    def request(self) -> PlacedRequest[CompletionRequest]:
        """Return the request."""
        case = self.case
        prefix = case.prefix + case.typed[: self.n_typed]
        return PlacedRequest(
            plain=CompletionRequest(uri=case.path, version=1, offset=len(prefix)),
            text=prefix + case.suffix,
            cursor=len(prefix),
            path=case.path,
            repo_name=case.project_name,
            language_id=case.language_id,
            file=case.path,
        )


def n_typed_of(typed: str) -> int | None:
    """Return where a quarter of a text is typed: at the start of a line that is not blank."""
    ends = [idx + 1 for idx, char in enumerate(typed) if char == "\n"]
    starts = [end for end in ends if typed[end:].partition("\n")[0].strip()]
    return next((start for start in starts if start >= len(typed) // 4), None)


def function_place(case: EditCase) -> Place | None:
    """Return the place in a function's body, in a project that lacks it."""
    n_typed = n_typed_of(case.typed)
    if n_typed is None:
        return None
    with without_body(case) as bare:
        root = bare.project or Path()
        files = scan(root, IgnoreRules(root, ()), ScanTally()) if bare.project else ()
        sources = {file.relative: read_source(file.path) for file in files}
    texts = {path: source.text for path, source in sources.items() if source is not None}
    return Place(case=case, n_typed=n_typed, texts=texts)


def places_of(source: Path, n_places: int, seed: int) -> Iterator[Place]:
    """Yield the places in a file of functions, or in a repository's commits.

    The same seed gives the same ones; fewer are the first of more.
    """
    if source.is_dir():
        for one in commit_places(source, n_places, seed):
            n_typed = n_typed_of(one.case.typed)
            if n_typed is not None:
                yield Place(case=one.case, n_typed=n_typed, texts=one.texts, edits=one.edits)
        return
    for function in drawn_points(load_cases(source), n_points=n_places, n_each=1, seed=seed):
        place = function_place(function.case)
        if place is not None:
            yield place


class PlacePrompts:
    """The prompts at a place."""

    def __init__(self, place: Place, layout: PromptLayout) -> None:
        self._place, self._layout = place, layout
        texts = place.texts.items()
        self._table = DefinitionTable({path: outline_of(path, text) for path, text in texts})

    def prompt(self, variant: Variant) -> tuple[tuple[int, ...], int]:
        """Return a prompt's tokens, and how many of them are of other files."""
        request, layout = self._place.request(), self._layout
        if not variant.has_names:
            layout = dataclasses.replace(layout, family=_without_names(layout.family))
        n_chunks = int(variant.n_prompt * variant.share)
        chunks = renewed_chunks(
            NO_CHUNKS, self._ranked(request, variant), n_chunks, layout.encode_chunk
        )
        text = FimText(
            repo_name=request.repo_name,
            path=request.path,
            prefix="\n".join(request.prefix.split("\n")[-variant.n_before - 1 :]),
            suffix="".join(request.suffix.splitlines(keepends=True)[: variant.n_after]),
        )
        budget = PromptBudget(n_prompt=variant.n_prompt, n_chunks=n_chunks)
        with (
            patch.object(excerpts, "N_LINES_ABOVE", variant.n_above),
            patch.object(prompt_module, "SUFFIX_SHARE", variant.suffix_share),
        ):
            laid_out = layout.fresh(text, budget, near=None, chunks=chunks)
        return laid_out.tokens, laid_out.excerpt.chunks.n_tokens

    def _ranked(
        self, request: PlacedRequest[CompletionRequest], variant: Variant
    ) -> list[ContextChunk]:
        n_chars = _CHARS_PER_TOKEN * variant.n_prompt
        visible = request.prefix[-n_chars * 3 // 4 :] + request.suffix[: n_chars // 4]
        found: list[ContextChunk] = []
        if "e" in variant.kinds:
            found += self._place.edits
        if "d" in variant.kinds:
            found += definition_candidates(request, self._table, self._place.texts.get, visible)
        return ranked(found, visible)


def _without_names(family: FimFamily) -> FimFamily:
    """Return a family whose prompts name neither repository nor path."""
    parts = family.body
    first = parts.index(FieldPart("path")) if FieldPart("path") in parts else -1
    kept = [part for part in parts[first + 1 :] if isinstance(part, TokenPart | FieldPart)]
    before = [part for part in parts[: first + 1] if part == FieldPart("chunks")]
    return dataclasses.replace(family, body=(*before, *kept))


# --- reading -------------------------------------------------------------------------------------


def readings(
    place: Place, names: Sequence[str], tokenizer: Tokenizer, target: Target
) -> list[Reading]:
    """Let the model read the human's text behind each variant's prompt."""
    vocabulary = tokenizer.vocabulary
    layout = PromptLayout(family=tokenizer.family, vocabulary=vocabulary, layout="anchored")
    of_place = PlacePrompts(place, layout)
    human = vocabulary.tokenize(place.human).tolist()[:_N_SCORED]
    pieces = tuple(vocabulary.piece(token).decode("utf-8", "surrogateescape") for token in human)
    prompts = {name: of_place.prompt(VARIANTS[name]) for name in names}
    read: dict[tuple[int, ...], tuple[tuple[float, ...], tuple[float, ...]]] = {}
    # Sorted, so that neighbours share the beginning that the KV cache keeps.
    for tokens in sorted({tokens for tokens, _ in prompts.values()}):
        read[tokens] = _read(target, tokens, human)
    return [
        Reading(
            case=place.case.id,
            project=place.case.project_name,
            language_id=place.case.language_id,
            variant=name,
            n_prompt=len(tokens),
            n_context=n_context,
            pieces=pieces,
            logprobs=read[tokens][0],
            greedy=read[tokens][1],
        )
        for name, (tokens, n_context) in prompts.items()
    ]


def _read(
    target: Target, prompt: Sequence[int], human: Sequence[int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the log-probabilities of the human's tokens, and those of the likeliest ones."""
    *before, last = prompt
    target.truncate(common_head(target.cached, before))
    while len(target.cached) < len(before):
        start = len(target.cached)
        target.decode(before[start : start + target.n_ubatch], 0)
    rows = target.decode([last, *human[:-1]], len(human)).astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    totals = np.log(np.exp(rows).sum(axis=1))
    own = rows[np.arange(len(human)), human] - totals
    return tuple(np.round(own, 4).tolist()), tuple(np.round(-totals, 4).tolist())


# --- the command ---------------------------------------------------------------------------------


def run(
    settings: Settings,
    *,
    source: Path,
    n_places: int,
    replay_seed: int,
    variant_names: str,
    record_path: Path,
) -> Report:
    """Read texts behind several prompts, going on where the record ends."""
    names = [one.strip() for one in variant_names.split(",") if one.strip()] or [*VARIANTS]
    for name in names:
        if name not in VARIANTS:
            raise PointsError(
                f"there is no variant {name!r}.", remedy=f"Known: {', '.join(VARIANTS)}."
            )
    known = _recorded(record_path, model_files(settings).target.name)
    done = {(one.case, one.variant) for one in known}
    drawn: set[str] = set()
    with loaded_models(settings) as (tokenizer, weights), RunProgress() as progress:
        task = progress.add_task("places", total=n_places)
        for place in places_of(source, n_places, replay_seed):
            drawn.add(place.case.id)
            missing = [name for name in names if (place.case.id, name) not in done]
            new = readings(place, missing, tokenizer, weights.target) if missing else []
            with record_path.open("a", encoding="ascii") as file:
                file.writelines(json.dumps(msgspec.to_builtins(one)) + "\n" for one in new)
            known += new
            progress.advance(task)
    found = [one for one in known if one.case in drawn and one.variant in names]
    return Report(tables(found, names), {"readings": len(found)})


def _recorded(path: Path, model: str) -> list[Reading]:
    """Return the readings in a file, which begins with the model's name; make it if need be."""
    first = json.dumps({"model": model})
    lines = path.read_text(encoding="ascii").split("\n")[:-1] if path.exists() else []
    if lines[:1] not in ([], [first]):
        raise PointsError(f"{path} holds no readings by {model}.", remedy="Name another file.")
    # Without a last line that was cut short.
    path.write_text("".join(f"{line}\n" for line in lines or [first]), encoding="ascii")
    return [msgspec.convert(json.loads(line), Reading) for line in lines[1:]]


# --- tables --------------------------------------------------------------------------------------

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one reading, a token."""

    logprob: float
    agreed: float
    """Share of the tokens that are the greedy choice."""
    saved: _Floats
    """Characters up to the line's end that a greedy text from there has right, by threshold."""
    wrong: _Floats
    """Share of the places at which the greedy text shows a token that differs, by threshold."""


def scores(reading: Reading) -> Scores:
    """Return a reading's scores."""
    n_tokens = len(reading.pieces)
    greedy = np.array(reading.greedy)
    agrees = np.array(reading.logprobs) >= greedy
    saved, wrong = np.zeros(len(_THRESHOLDS)), np.zeros(len(_THRESHOLDS))
    ends = [idx for idx in range(n_tokens) if not agrees[idx] or "\n" in reading.pieces[idx]]
    for start in range(n_tokens):
        last = next((end for end in ends if end >= start), n_tokens - 1)
        n_right = last - start + bool(agrees[last])
        lengths = [len(p.partition("\n")[0]) for p in reading.pieces[start : start + n_right]]
        kept = np.searchsorted(-np.cumsum(greedy[start : last + 1]), -_THRESHOLDS, "right")
        saved += np.cumsum([0, *lengths])[np.minimum(kept, n_right)]
        wrong += kept > n_right
    return Scores(
        float(np.mean(reading.logprobs)), float(agrees.mean()), saved / n_tokens, wrong / n_tokens
    )


def tables(found: Sequence[Reading], names: Sequence[str]) -> list[Table | str]:
    """Return all variants beside the first one, and the likelihoods by language."""
    by_case: dict[str, dict[str, Reading]] = {}
    for one in found:
        by_case.setdefault(one.case, {})[one.variant] = one
    whole = Table(
        f"Prompts beside {names[0]!r}, paired by place",
        ("variant", "places", "prompt", "of other files", "log p", "difference", "interval",
         "greedy, %", "difference", "interval", "saved", "wrong, %", "ratio", "interval"),
        caption="Prompt tokens; the log-probability of the human's tokens, and the share of them "
        "that are the greedy choice. Saved: characters a place that a greedy text has right up to "
        "the line's end, cut at a joint probability of 0.3; wrong: places at which it shows a "
        "token that differs. Ratio: of the saved characters, where each prompt's cut shows as "
        "many wrong tokens as the first one's. Intervals: 95 %, projects drawn anew, and places "
        "within each.",
    )  # fmt: skip
    languages = Table(
        "Differences of log p by language",
        ("language", "variant", "places", "difference", "interval"),
        n_names=2,
    )
    for name in names:
        pairs = [
            (own[names[0]], own[name]) for own in by_case.values() if {name, names[0]} <= own.keys()
        ]
        if not pairs:
            continue
        whole.add(name, *_cells(pairs))
        for language in dict.fromkeys(one.language_id for one, _ in pairs):
            own_pairs = [pair for pair in pairs if pair[0].language_id == language]
            deltas = np.array([scores(b).logprob - scores(a).logprob for a, b in own_pairs])
            weights = _drawn_weights([a.project for a, _ in own_pairs])
            cells = _difference(deltas, weights, ".3f")
            languages.add(language, name, str(len(own_pairs)), *cells)
    languages.rows.sort(key=lambda row: row[0])
    return [whole, languages]


def _cells(pairs: Sequence[tuple[Reading, Reading]]) -> list[str]:
    weights = _drawn_weights([a.project for a, _ in pairs])
    before, after = [scores(a) for a, _ in pairs], [scores(b) for _, b in pairs]
    logprobs = np.array([b.logprob - a.logprob for a, b in zip(before, after, strict=True)])
    agreed = np.array([100 * (b.agreed - a.agreed) for a, b in zip(before, after, strict=True)])
    saved, wrong = np.array([b.saved for b in after]), np.array([b.wrong for b in after])
    former = np.array([[a.saved[_THRESHOLD], a.wrong[_THRESHOLD]] for a in before])

    def ratio(weight: _Floats) -> float:
        n_saved, n_wrong = weight @ former
        # Ascending, as interpolation wants it: a higher threshold shows less.
        kept = np.interp(n_wrong, (weight @ wrong)[::-1], (weight @ saved)[::-1])
        return float(kept / n_saved) if n_saved else 1.0

    low, high = np.percentile([ratio(weight) for weight in weights], [2.5, 97.5])
    return [
        str(len(pairs)),
        f"{np.mean([b.n_prompt for _, b in pairs]):.0f}",
        f"{np.mean([b.n_context for _, b in pairs]):.0f}",
        f"{np.mean([b.logprob for b in after]):.3f}",
        *_difference(logprobs, weights, ".3f"),
        f"{100 * np.mean([b.agreed for b in after]):.1f}",
        *_difference(agreed, weights, ".2f"),
        f"{saved[:, _THRESHOLD].mean():.2f}",
        f"{100 * wrong[:, _THRESHOLD].mean():.1f}",
        f"{ratio(np.ones(len(pairs))):.3f}",
        f"{low:.3f} … {high:.3f}",
    ]


def _difference(deltas: _Floats, weights: _Floats, form: str) -> list[str]:
    low, high = np.percentile(weights @ deltas / weights.sum(axis=1), [2.5, 97.5])
    return [f"{deltas.mean():+{form}}", f"{low:+{form}} … {high:+{form}}"]


def _drawn_weights(projects: Sequence[str]) -> _Floats:
    """Return how often each place is drawn, shape [samples, places].

    Projects are drawn anew, and in each of them its places.
    """
    generator = np.random.default_rng(0)
    names = np.array(projects)
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(projects)]
    weights = np.zeros((_N_SAMPLES, len(projects)))
    for weight in weights:
        for chosen in generator.integers(len(groups), size=len(groups)):
            np.add.at(weight, generator.choice(groups[chosen], len(groups[chosen])), 1)
    return weights
