"""The folder that a training works in: what each step leaves there for the next one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["target", "draft"]
ROLES: tuple[Role, ...] = ("target", "draft")


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Paths below the folder."""

    root: Path

    @property
    def corpus(self) -> Path:
        """Files to train on."""
        return self.root / "corpus.jsonl.gz"

    @property
    def held_out(self) -> Path:
        """Files to measure on."""
        return self.root / "held-out.jsonl.gz"

    @property
    def manifest(self) -> Path:
        """What the corpus was made of."""
        return self.root / "corpus.json"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of both models."""
        return self.root / "tokenizer.json"

    @property
    def shards(self) -> Path:
        """Samples made in advance, where there are any."""
        return self.root / "shards"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.root / "MODEL_CARD.md"

    def run(self, role: Role) -> Path:
        """Folder of one model's states and log."""
        return self.root / role

    def state(self, role: Role) -> Path:
        """The last state of one model's training."""
        return self.run(role) / "state.pt"

    def gguf(self, role: Role, precision: str) -> Path:
        """The finished model."""
        return self.root / f"embedded-{role}-{precision}.gguf"
