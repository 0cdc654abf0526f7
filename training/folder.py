"""The folder that a training works in: what each step leaves there for the next one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

VERSION = "2026.11"
"""Of the pair, in its GGUFs and its card."""

LICENCE = "MIT"
"""SPDX name of the weights' licence."""

Role = Literal["target", "draft", "edit"]
PAIR: tuple[Role, ...] = ("target", "draft")
ROLES: tuple[Role, ...] = (*PAIR, "edit")
"""Besides the pair: a model that rewrites regions, made from the target."""


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Paths below the folder."""

    root: Path

    @property
    def corpus(self) -> Path:
        """Files to train on."""
        return self.root / "corpus.jsonl.xz"

    @property
    def held_out(self) -> Path:
        """Files to measure on."""
        return self.root / "held-out.jsonl.xz"

    @property
    def manifest(self) -> Path:
        """What the corpus was made of."""
        return self.root / "corpus.json"

    @property
    def file_list(self) -> Path:
        """Every file that is trained on, with its licence and SHA-256."""
        return self.root / "corpus-files.jsonl.xz"

    @property
    def left_out(self) -> Path:
        """What was left out because of its licence, and why."""
        return self.root / "left-out.jsonl.xz"

    @property
    def earlier(self) -> Path:
        """Files of earlier releases, whose changes have next edits."""
        return self.root / "earlier.jsonl.xz"

    @property
    def earlier_list(self) -> Path:
        """Every file of earlier releases that is trained on, with its licence and SHA-256."""
        return self.root / "earlier-files.jsonl.xz"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of all models."""
        return self.root / "tokenizer.json"

    @property
    def card(self) -> Path:
        """The pair's model card."""
        return self.root / "MODEL_CARD.md"

    @property
    def edit_card(self) -> Path:
        """The card of the model for next edits."""
        return self.root / "EDIT_MODEL_CARD.md"

    def run(self, role: Role) -> Path:
        """Folder of one model's states and log."""
        return self.root / role

    def state(self, role: Role) -> Path:
        """The last state of one model's training."""
        return self.run(role) / "state.pt"

    @property
    def through_speclsp(self) -> Path:
        """Figures of the benchmarks, in Markdown, which the card takes over; it may be missing."""
        return self.root / "through-speclsp.md"

    def gguf(self, role: Role, precision: str) -> Path:
        """The finished model."""
        return self.root / f"embedded-{role}-{precision}.gguf"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the repository keeps of a training, so that it can go on elsewhere."""

    root: Path

    @property
    def weights(self) -> Path:
        """The target's weights in half precision, its shape and totals."""
        return self.root / "target.pt"

    @property
    def edit_weights(self) -> Path:
        """Those of the model for next edits, once its training has begun."""
        return self.root / "edit.pt"

    @property
    def draft(self) -> Path:
        """The draft model that was distilled from these weights, once there is one."""
        return self.root / "embedded-draft-q8_0.gguf"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer."""
        return self.root / "tokenizer.json"

    @property
    def manifest(self) -> Path:
        """What the corpus is made of, by package."""
        return self.root / "corpus.json"

    @property
    def file_list(self) -> Path:
        """Every file of the corpus."""
        return self.root / "corpus-files.jsonl.xz"

    @property
    def earlier_list(self) -> Path:
        """Every file of earlier releases that the model for next edits was trained on."""
        return self.root / "earlier-files.jsonl.xz"

    @property
    def readme(self) -> Path:
        """How far the training got and how it goes on."""
        return self.root / "README.md"


def file_hash(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
