"""A scripted model family for the completer's tests: one token per byte, and a loader to steer."""

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scripted_target import ScriptedTarget

from speclsp.backends.weights import Log, Progress, Tokenizer, Weights
from speclsp.drafting.drafter import TokenArray
from speclsp.errors import SpecLspError
from speclsp.prompt.families import family_for
from speclsp.prompt.healing import TokenPrefixes
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import FimTokenIds

SPECIALS = {
    "<|fim_prefix|>": 256,
    "<|fim_suffix|>": 257,
    "<|fim_middle|>": 258,
    "<|repo_name|>": 259,
    "<|file_sep|>": 260,
    "<|endoftext|>": 261,
}
END = 261
N_TOKENS = 262


class ByteVocabulary:
    """Token ids below 256 are bytes, above are special tokens."""

    n_tokens = N_TOKENS
    metadata: Mapping[str, str] = {"general.architecture": "qwen2", "tokenizer.ggml.model": "gpt2"}
    bos = None
    end_tokens = frozenset({END})
    fim = FimTokenIds(prefix=256, suffix=257, middle=258, repo=259, separator=260)

    def __init__(self, fingerprint: str = "bytes") -> None:
        self.fingerprint = fingerprint

    def tokenize(self, text: str) -> TokenArray:
        return np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8).astype(np.int32)

    def special(self, text: str) -> int | None:
        return SPECIALS.get(text)

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""


def answering(text: str) -> Callable[[Sequence[int]], Sequence[float]]:
    """Predict ``text`` and an end token behind the last ``<|fim_middle|>`` and its line."""
    script = [*text.encode(), END]

    def predict(cached: Sequence[int]) -> Sequence[float]:
        middle = len(cached) - 1 - list(reversed(cached)).index(258)
        typed = bytes(t for t in cached[middle + 1 :] if t < 256)
        n_done = _overlap(typed, text.encode())
        logits = [0.0] * N_TOKENS
        logits[script[min(n_done, len(script) - 1)]] = 20.0  # sure of it
        return logits

    return predict


def _overlap(typed: bytes, text: bytes) -> int:
    """How much of ``text`` stands at the end of ``typed`` already."""
    for n in range(min(len(typed), len(text)), 0, -1):
        if typed.endswith(text[:n]):
            return n
    return 0


class GatedTarget(ScriptedTarget):
    """A target whose decodes can be held up, counted, and made to fail."""

    def __init__(self, predict: Callable[[Sequence[int]], Sequence[float]], **sizes: int) -> None:
        super().__init__(predict, N_TOKENS, **sizes)
        self.gate = threading.Event()
        self.gate.set()
        self.decoding = threading.Event()
        self.before_decode: Callable[[], None] = lambda: None

    def set_interrupt(self, predicate):
        pass

    def decode(self, tokens, n_logits):
        self.decoding.set()
        assert self.gate.wait(60)
        self.before_decode()
        return super().decode(tokens, n_logits)


class ScriptedLoader:
    """Loads a :class:`GatedTarget`; loading can be held up and made to fail."""

    def __init__(self, text: str = "return 1", fingerprint: str = "bytes", **sizes: int) -> None:
        self.text = text
        self.fingerprint = fingerprint
        self.sizes = sizes
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.problems: list[SpecLspError] = []
        self.targets: list[GatedTarget] = []

    @property
    def target(self) -> GatedTarget:
        return self.targets[-1]

    def close(self) -> None:
        pass

    def tokenizer(self, settings: Settings) -> Tokenizer:
        vocabulary = ByteVocabulary(self.fingerprint)
        return Tokenizer(
            vocabulary=vocabulary,
            family=family_for(vocabulary, settings.fim_template),
            prefixes=TokenPrefixes(vocabulary),
        )

    def weights(
        self, settings: Settings, tokenizer: Tokenizer, progress: Progress, log: Log
    ) -> Weights:
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        progress(0.5)
        self.targets.append(GatedTarget(answering(self.text), **self.sizes))
        return Weights(
            target=self.targets[-1],
            draft=None,
            description="scripted model",
            layers={"scripted": 3},
            problems=self.problems,
        )
