"""The publisher's own Qwen2.5-Coder Instruct files, and fixed places in six languages.

``SPECLSP_REAL_MODELS`` names the folder that has them; without one the tests are skipped.
"""

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from exactness import sampling
from quiet_loading import quiet_target
from real_prompts import RealPrompt

from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.weights import LlamaLoader, Tokenizer
from speclsp.prompt.prompt import PromptBudget
from speclsp.settings import Settings
from tests.support.margins import RecordingSampler
from tests.support.prompts import build_prompt

FOLDER: Final = os.environ.get("SPECLSP_REAL_MODELS", "")
MODELS: Final = {size: f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf" for size in ("0.5b", "1.5b")}
"""Files of Qwen/Qwen2.5-Coder-*-Instruct-GGUF by size."""
WRITES: Final = frozenset(os.environ.get("SPECLSP_REAL_WRITE", "").split())
"""Which records are written anew: ``tokens``, ``shown``."""
HERE: Final = Path(__file__).parents[1] / "published"
N_GOLDEN: Final = 32
N_SAME: Final = 4
"""Tokens of a pass whose logits are bit by bit those of single tokens (docs/decisions)."""
_BUDGET: Final = PromptBudget(n_prompt=512, n_chunks=0)


def why_missing(size: str) -> str:
    """Return why a model cannot be tested, "" where it can."""
    if not FOLDER:
        return "no folder with the published weights: make real MODELS=FOLDER"
    if not (Path(FOLDER).expanduser() / MODELS[size]).is_file():
        return f"{FOLDER} has no {MODELS[size]}"
    return ""


def model_path(size: str) -> Path:
    return Path(FOLDER).expanduser() / MODELS[size]


def loaded_tokenizer(size: str) -> Tokenizer:
    return LlamaLoader(lambda _level, _line: None).tokenizer(Settings(model=str(model_path(size))))


def loaded_target(size: str) -> LlamaTarget:
    """Load a model on one thread: with several, llama.cpp adds attention up by threads."""
    return quiet_target(model_path(size), ctx_size=2048, fit=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor in a file."""

    name: str
    path: str
    prefix: str
    suffix: str

    def prompt(self, tokenizer: Tokenizer) -> RealPrompt:
        """Return the place's prompt as the completer lays it out without other files."""
        vocabulary = tokenizer.vocabulary
        made = build_prompt(
            tokenizer.family,
            vocabulary,
            repo_name="published",
            path=self.path,
            prefix=self.prefix,
            suffix=self.suffix,
            budget=_BUDGET,
            layout=Settings().fim_layout,
        )
        return RealPrompt(
            name=self.name,
            tokens=made.tokens,
            prefix=vocabulary.tokenize(self.prefix),
            suffix=vocabulary.tokenize(self.suffix),
        )


def places() -> list[Place]:
    found = []
    for section in (HERE / "places.txt").read_text(encoding="utf-8").split("#### ")[1:]:
        head, _, text = section.partition("\n")
        name, path = head.split(" ")
        prefix, suffix = text.split("¦")
        found.append(Place(name, path, prefix, suffix))
    return found


@dataclass(frozen=True, slots=True)
class Golden:
    """The target's own tokens at a place, uncut, up to one that ends a text."""

    prompt: int
    """A checksum of the prompt's tokens."""
    tokens: tuple[int, ...]
    margins: tuple[float, ...]
    """Half the gap, in logits, between the chosen token and the second best one."""


def checksum(tokens: tuple[int, ...]) -> int:
    return zlib.crc32(np.array(tokens, dtype=np.int32).tobytes())


def fill(target: LlamaTarget, prompt: tuple[int, ...]) -> None:
    """Evaluate all of a prompt but its last token."""
    target.truncate(0)
    for start in range(0, len(prompt) - 1, 128):
        target.decode(prompt[start : min(start + 128, len(prompt) - 1)], 0)


def own_tokens(target: LlamaTarget, tokenizer: Tokenizer, prompt: tuple[int, ...]) -> Golden:
    """Decode one token after another, each the most probable one."""
    sampler = RecordingSampler(sampling("greedy", 0))
    fill(target, prompt)
    tokens = [prompt[-1]]
    while len(tokens) <= N_GOLDEN and tokens[-1] not in tokenizer.family.end_tokens:
        tokens.append(sampler.sample(target.decode(tokens[-1:], 1)[0]))
    margins = tuple(round(margin, 3) for margin in sampler.margins)
    return Golden(checksum(prompt), tuple(tokens[1:]), margins)


def golden(size: str) -> dict[str, Golden]:
    """Return the recorded tokens by the places' names."""
    path = HERE / f"tokens-{size}.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: Golden(
            row["prompt"],
            tuple(token for token, _, _ in row["tokens"]),
            tuple(margin for _, _, margin in row["tokens"]),
        )
        for name, row in rows.items()
    }


def write_golden(size: str, tokenizer: Tokenizer, found: dict[str, Golden]) -> None:
    """Write the tokens of all places, each with its text and margin."""

    def row(one: Golden) -> str:
        piece = tokenizer.vocabulary.piece
        tokens = [
            [token, piece(token).decode("utf-8", "replace"), margin]
            for token, margin in zip(one.tokens, one.margins, strict=True)
        ]
        lines = ",\n".join(f"   {json.dumps(token, ensure_ascii=False)}" for token in tokens)
        return f'{{"prompt": {one.prompt}, "tokens": [\n{lines}]}}'

    rows = ",\n".join(f" {json.dumps(name)}: {row(one)}" for name, one in found.items())
    (HERE / f"tokens-{size}.json").write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
