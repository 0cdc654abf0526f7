"""Measures a GGUF through llama.cpp, on files that it was not trained on."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.fit import MAX_OUTPUTS
from speclsp.backends.llama.loading import load_target
from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.completer.edit_prompts import edit_tokens
from speclsp.decoding.sampling import GreedySampler
from speclsp.prompt.healing import HealingSampler, TokenPrefixes, healing_prefix
from speclsp.settings import Settings
from training.corpus import SourceFile
from training.cutting import indentation, line_end, line_start
from training.edit_samples import FORMAT, Example
from training.folder import file_hash
from training.holdout import MEASURED, MEASURED_BEFORE

_N_REPEATS = 3


def first_line(text: str) -> str:
    """Return a completion's first line without the white space at its end."""
    return text.split("\n", 1)[0].rstrip()


def repeats_a_line(text: str) -> bool:
    """Whether a line that has letters or digits in it stands three times in a text."""
    lines = (line.strip() for line in text.split("\n"))
    counts = Counter(line for line in lines if any(map(str.isalnum, line)))
    return any(count >= _N_REPEATS for count in counts.values())


Kind = Literal["mid-line", "line start"]

_N_PREFIX_CHARS = 1200
_N_SUFFIX_CHARS = 450
_MIN_EXPECTED = 3


@dataclass(frozen=True, slots=True)
class Probe:
    """One place: the text around the cursor, which stands on a line whose rest is missing."""

    package: str
    path: str
    kind: Kind
    prefix: str
    typed: str
    """The text of the cursor's line before the cursor; ``prefix`` ends before it."""
    expected: str
    suffix: str


def draw_probes(files: Sequence[SourceFile], n_probes: int, seed: int) -> list[Probe]:
    """Draw places, as many of each package; half lie inside a line, half at a line's start.

    What is expected has three characters at least.
    """
    rng = random.Random(seed)
    by_package: dict[str, list[SourceFile]] = {}
    for file in files:
        by_package.setdefault(file.package, []).append(file)
    packages = sorted(by_package)
    probes: list[Probe] = []
    while len(probes) < n_probes:
        package = packages[len(probes) // 2 % len(packages)]
        file = rng.choice(by_package[package])
        kind: Kind = "line start" if len(probes) % 2 else "mid-line"
        probe = _probe(file, kind, rng)
        if probe is not None:
            probes.append(probe)
    return probes


def _probe(file: SourceFile, kind: Kind, rng: random.Random) -> Probe | None:
    text = file.text
    index = rng.randrange(len(text))
    start, end = line_start(text, index), line_end(text, index)
    first = start + indentation(text[start:end])
    cursor = first if kind == "line start" else rng.randint(first, end)
    expected = text[cursor:end].rstrip()
    if (kind == "mid-line" and cursor == first) or len(expected.strip()) < _MIN_EXPECTED:
        return None
    prefix_start = max(0, start - _N_PREFIX_CHARS)
    if prefix_start > 0:
        prefix_start = min(start, line_end(text, prefix_start) + 1)
    return Probe(
        package=file.package,
        path=file.path,
        kind=kind,
        prefix=text[prefix_start:start],
        typed=text[start:cursor],
        expected=expected,
        suffix=text[end : end + _N_SUFFIX_CHARS],
    )


Layout = Literal["plain", "anchored"]
Cursor = Literal["healed", "as it is"]
"""Whether the end of what was typed is held back and said again, as the product does."""

_N_PREDICT = 128
_N_CTX = 2304


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered at a probe: raw greedy output, without stop rules."""

    probe: Probe
    text: str
    ended: bool
    """Whether the model ended it; else it was cut after 128 tokens."""

    @property
    def is_exact(self) -> bool:
        """Whether the first line is the one that stood there."""
        return first_line(self.text) == self.probe.expected


class MeasuredModel:
    """A GGUF in llama.cpp."""

    def __init__(self, path: Path, n_threads: int) -> None:
        settings = Settings(
            model=str(path),
            threads=n_threads,
            ctx_size=_N_CTX,
            batch_size=_N_CTX,
            n_gpu_layers=0,
            fit=False,
        )
        self.vocabulary: LlamaVocabulary = load_vocabulary(path)
        self.prefixes = TokenPrefixes(self.vocabulary)
        self.target: LlamaTarget = load_target(
            path,
            settings,
            progress=lambda _share: True,
            log=lambda _level, _text: None,
        )

    def close(self) -> None:
        """Free the model."""
        self.target.close()

    def logits(self, tokens: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Return the logits after each token of a text; shape [n_tokens, n_vocab]."""
        self.target.truncate(0)
        starts = range(0, len(tokens), MAX_OUTPUTS)
        pieces = (tokens[start : start + MAX_OUTPUTS] for start in starts)
        return np.concatenate([self.target.decode(piece, len(piece)).copy() for piece in pieces])

    def bits(self, head: Sequence[int], tokens: Sequence[int]) -> float:
        """Return how many bits the model takes to tell ``tokens`` behind ``head``."""
        logits = self.logits([*head, *tokens])[len(head) - 1 : -1].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(tokens)), np.asarray(tokens)]
        nats = np.log(np.exp(logits).sum(axis=1)) - chosen
        return float(nats.sum() / math.log(2))

    def greedy(
        self, prompt: Sequence[int], held: str, n_predict: int = _N_PREDICT
    ) -> tuple[str, bool]:
        """Return what follows a prompt and ``held``, and whether the model ended it.

        Until ``held`` has been said, only tokens that go along with it are chosen from.
        """
        common = 0
        cached = self.target.cached
        while common < min(len(cached), len(prompt) - 1) and cached[common] == prompt[common]:
            common += 1
        self.target.truncate(common)
        pending = list(prompt[common:])
        sampler = HealingSampler(GreedySampler(), self.prefixes, self.vocabulary, held)
        data, n_held = b"", len(held.encode())
        for _ in range(n_predict):
            token = sampler.sample(self.target.decode(pending, 1)[0])
            if token in self.vocabulary.end_tokens:
                return data[n_held:].decode("utf-8", "replace"), True
            data += self.vocabulary.piece(token)
            pending = [token]
        return data[n_held:].decode("utf-8", "replace"), False

    def head(self, repo: str, path: str) -> list[int]:
        """Return the tokens that name a file."""
        fim = self.vocabulary.fim
        repo_tokens = self.vocabulary.tokenize(repo + "\n").tolist()
        path_tokens = self.vocabulary.tokenize(path + "\n").tolist()
        return [_id(fim.repo), *repo_tokens, _id(fim.separator), *path_tokens]

    def answer(self, probe: Probe, layout: Layout, cursor: Cursor) -> Completion:
        """Complete at a probe."""
        held = healing_prefix(self.prefixes, probe.typed) if cursor == "healed" else ""
        typed = probe.typed[: len(probe.typed) - len(held)]
        before = probe.prefix + (typed if layout == "plain" else "")
        after = typed if layout == "anchored" else ""
        fim = self.vocabulary.fim
        prompt = [
            *self.head(probe.package, probe.path),
            _id(fim.prefix),
            *self._tokens(before),
            _id(fim.suffix),
            *self._tokens(probe.suffix),
            _id(fim.middle),
            *self._tokens(after),
        ]
        return Completion(probe, *self.greedy(prompt, held))

    def rewritten(self, example: Example) -> str | None:
        """Return an example's region as the model writes it; None where the context is short."""
        prompt = FORMAT.prompt(example.source, example.region)
        tokens = edit_tokens(prompt.text, FORMAT, self.vocabulary)
        n_predict = len(self._tokens(example.old)) + _N_PREDICT
        if len(tokens) + n_predict > self.target.n_ctx:
            return None
        text, _ = self.greedy(tokens, "", n_predict)
        return FORMAT.rewritten(prompt, text) or example.old

    def _tokens(self, text: str) -> list[int]:
        return self.vocabulary.tokenize(text).tolist() if text else []


def bits_per_byte(
    model: MeasuredModel, files: Sequence[SourceFile], n_context: int, n_tokens: int
) -> float:
    """Return a model's bits per byte on files, by windows of ``n_context`` tokens.

    About ``n_tokens`` tokens are told, of files in an order that is the same each time; the
    names in front of each window count as context and not as text.
    """
    shuffled = list(files)
    random.Random(0).shuffle(shuffled)
    bits, n_bytes, n_left = 0.0, 0, n_tokens
    for file in shuffled:
        if n_left <= 0:
            break
        head = model.head(file.package, file.path)
        tokens = model.vocabulary.tokenize(file.text).tolist()
        size = n_context - len(head)
        for start in range(0, min(len(tokens), 4 * size), size):
            window = tokens[start : start + size]
            if len(window) < size // 2:
                continue
            bits += model.bits(head, window)
            n_bytes += sum(len(model.vocabulary.piece(token)) for token in window)
            n_left -= len(window)
    return bits / n_bytes


def _id(token: int | None) -> int:
    assert token is not None, "the model has Qwen2.5-Coder's special tokens"
    return token


CONTEXTS = (640, 2048)
WAYS: tuple[tuple[Layout, Cursor], ...] = (
    ("plain", "as it is"),
    ("plain", "healed"),
    ("anchored", "as it is"),
    ("anchored", "healed"),
)
"""In this order a probe's prompts share most with the one before."""
_N_TOLD = 60_000
"""Tokens by which bits per byte are measured, of each group and context."""

_N_SHOWN = 12


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """What a model answered in one way of asking: shares of its raw greedy answers."""

    layout: Layout
    cursor: Cursor

    exact_mid_line: float
    exact_line_start: float
    ended: float
    looping: float


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer, to look at."""

    path: str
    typed: str
    expected: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """All figures of one model."""

    file_name: str
    n_bytes: int
    bits_before: dict[str, float]
    """Bits per byte by context, on what the provisional models were not trained on either."""
    bits_since: dict[str, float]
    """The same on what is held out from now on."""
    answers: tuple[AnswerFigures, ...]
    """Empty where the model was not asked."""
    shown: tuple[Shown, ...]


def measure(
    path: Path, held_out: Sequence[SourceFile], *, n_probes: int, n_threads: int
) -> ModelFigures:
    """Take all figures of one GGUF; with no probes, bits per byte alone."""
    before = [file for file in held_out if file.package in MEASURED_BEFORE]
    since = [file for file in held_out if file.package in MEASURED]
    probes = draw_probes([*before, *since], n_probes, seed=1)
    found: dict[tuple[Layout, Cursor], list[Completion]] = {way: [] for way in WAYS}
    model = MeasuredModel(path, n_threads)
    try:
        bits = [
            {str(n): bits_per_byte(model, files, n, _N_TOLD) for n in CONTEXTS}
            for files in (before, since)
        ]
        for probe in probes:
            for layout, cursor in WAYS:
                found[layout, cursor].append(model.answer(probe, layout, cursor))
    finally:
        model.close()
    return ModelFigures(
        file_name=path.name,
        n_bytes=path.stat().st_size,
        bits_before=bits[0],
        bits_since=bits[1],
        answers=tuple(_figures(way, answers) for way, answers in found.items() if answers),
        shown=tuple(_shown(answer) for answer in found["anchored", "healed"][:_N_SHOWN]),
    )


@dataclass(frozen=True, slots=True)
class EditFigures:
    """How a model rewrites the regions of one kind of change.  It shows copying, not quality."""

    kind: str
    n_edits: int
    """Examples where an edit follows."""
    exact: float
    """Share of them whose region is rewritten exactly so."""
    touched: float
    """Share of them whose region is not left as it is."""
    n_quiet: int
    """Examples where nothing follows."""
    quiet: float
    """Share of them whose region is left as it is."""


def measure_edits(
    path: Path, examples: Sequence[Example], *, n_threads: int
) -> tuple[EditFigures, ...]:
    """Return a GGUF's figures on next edits, by kind of change.

    Examples that the context has no room for are left out.
    """
    found: dict[str, list[tuple[Example, str]]] = {}
    model = MeasuredModel(path, n_threads)
    try:
        for example in examples:
            new = model.rewritten(example)
            if new is not None:
                found.setdefault(example.kind, []).append((example, new))
    finally:
        model.close()
    return tuple(_edit_figures(kind, found[kind]) for kind in sorted(found))


def _edit_figures(kind: str, answers: Sequence[tuple[Example, str]]) -> EditFigures:
    edits = [(example, new) for example, new in answers if not example.is_quiet]
    quiet = [new == example.old for example, new in answers if example.is_quiet]
    return EditFigures(
        kind=kind,
        n_edits=len(edits),
        exact=_share(new == example.new for example, new in edits),
        touched=_share(new != example.old for example, new in edits),
        n_quiet=len(quiet),
        quiet=_share(quiet),
    )


def _share(counts: Iterable[bool]) -> float:
    found = list(counts)
    return sum(found) / len(found) if found else 0.0


def measured_once(
    path: Path,
    held_out: Sequence[SourceFile],
    folder: Path,
    *,
    n_probes: int,
    n_threads: int,
) -> ModelFigures:
    """Return a GGUF's figures, taken once: a file of ``folder`` keeps them by its SHA-256."""
    kept = folder / f"figures-{path.stem}-{file_hash(path)[:12]}-{n_probes}.json"
    if not kept.is_file():
        figures = measure(path, held_out, n_probes=n_probes, n_threads=n_threads)
        kept.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return msgspec.json.decode(kept.read_bytes(), type=ModelFigures)


def _figures(way: tuple[Layout, Cursor], answers: Sequence[Completion]) -> AnswerFigures:
    n_answers = len(answers)
    return AnswerFigures(
        layout=way[0],
        cursor=way[1],
        exact_mid_line=_share_exact([a for a in answers if a.probe.kind == "mid-line"]),
        exact_line_start=_share_exact([a for a in answers if a.probe.kind == "line start"]),
        ended=sum(answer.ended for answer in answers) / n_answers,
        looping=sum(repeats_a_line(answer.text) for answer in answers) / n_answers,
    )


def _share_exact(answers: Sequence[Completion]) -> float:
    return sum(answer.is_exact for answer in answers) / len(answers)


def _shown(answer: Completion) -> Shown:
    probe = answer.probe
    return Shown(probe.path, probe.typed, probe.expected, answer.text)
