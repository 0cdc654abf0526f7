"""Models as the engine loads them, whose progress nobody watches."""

from pathlib import Path
from typing import Any

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.loading import load_target
from speclsp.backends.weights import load_draft_model
from speclsp.settings import Settings
from speclsp.vocabulary_protocol import Vocabulary


def quiet_target(path: Path, lines: list[str] | None = None, **settings: Any) -> LlamaTarget:
    """Load a target model, on one thread where the settings do not say how many.

    ``lines`` takes what its log says, each with its level before it.
    """
    told = [] if lines is None else lines
    return load_target(
        path,
        Settings(**{"threads": 1, **settings}),
        progress=lambda _share: True,
        log=lambda level, line: told.append(f"{level}: {line}"),
    )


def quiet_draft_model(
    path: Path, vocabulary: Vocabulary, lines: list[str] | None = None, **settings: Any
) -> DraftModelDrafter:
    """Load a draft model for a target of 2048 positions; ``lines`` takes what its log says."""
    told = [] if lines is None else lines
    return load_draft_model(
        path,
        Settings(**{"threads": 1, **settings}),
        vocabulary,
        2048,
        lambda level, line: told.append(f"{level}: {line}"),
    )
