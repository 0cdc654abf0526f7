"""Measures a GGUF through llama.cpp, on files that it was not trained on."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from speclsp.decoding.sampling import GreedySampler
from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.loading import load_target
from speclsp.engine.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.engine.params import target_params
from speclsp.prompt.healing import HealingSampler, TokenPrefixes, held_back
from speclsp.settings import Settings
from training.corpus import SourceFile
from training.probes import Probe
from training.scores import first_line

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
            model=str(path), threads=n_threads, ctx_size=_N_CTX, batch_size=_N_CTX, n_gpu_layers=0
        )
        model_params, context_params = target_params(settings)
        self.vocabulary: LlamaVocabulary = load_vocabulary(path)
        self.prefixes = TokenPrefixes(self.vocabulary)
        self.target: LlamaTarget = load_target(
            path,
            model_params,
            context_params,
            fit=False,
            progress=lambda _share: True,
            log=lambda _level, _text: None,
        )

    def close(self) -> None:
        """Free the model."""
        self.target.close()
        self.vocabulary.close()

    def logits(self, tokens: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Return the logits behind each token of a text (tokens, vocabulary)."""
        self.target.truncate(0)
        return np.array(self.target.decode(tokens, len(tokens)), dtype=np.float32)

    def bits(self, head: Sequence[int], tokens: Sequence[int]) -> float:
        """Return how many bits the model takes to tell ``tokens`` behind ``head``."""
        logits = self.logits([*head, *tokens])[len(head) - 1 : -1].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(tokens)), np.asarray(tokens)]
        nats = np.log(np.exp(logits).sum(axis=1)) - chosen
        return float(nats.sum() / math.log(2))

    def greedy(self, prompt: Sequence[int], held: str) -> tuple[str, bool]:
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
        for _ in range(_N_PREDICT):
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
        held = held_back(self.prefixes, probe.typed) if cursor == "healed" else ""
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
