"""What stands above a table that was measured with a made model."""

from __future__ import annotations

from rich.console import Console

from speclsp.engine.models import cost_true_remark, model_files, wants_draft_model
from speclsp.settings import Settings


def remarks(settings: Settings) -> list[str]:
    """Return a line for each of the settings' models that was made by ``benchmarks make-model``.

    Raises :class:`~speclsp.errors.ModelError` where a model file cannot be read.
    """
    files = model_files(settings)
    paths = [files.target]
    if files.draft is not None and wants_draft_model(settings):
        paths.append(files.draft)
    said = ((path, cost_true_remark(path)) for path in paths)
    return [f"{path.name} is {remark}" for path, remark in said if remark]


def print_remarks(console: Console, settings: Settings) -> None:
    """Print them."""
    for line in remarks(settings):
        console.print(line, highlight=False, soft_wrap=True)
