"""What a model made by ``python -m benchmarks make-model`` says of itself.

A cost-true model computes a small model's function at a large one's cost.  Its times are the large
one's and its text is the small one's, which every figure measured with it has to say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

COST_OF_KEY: Final = "speclsp.cost_true.cost_of"
"""Metadata: the model whose shape it has."""
TEXT_OF_KEY: Final = "speclsp.cost_true.text_of"
"""Metadata: the file name of the model whose function it computes."""


def cost_true_remark(path: Path) -> str:
    """Return what figures measured with the model have to say; empty for an ordinary model.

    Raises :class:`~speclsp.errors.ModelError` where the file is no model.
    """
    # Imported here, so that a missing llama.cpp build is an error of this call alone.
    from speclsp.engine.llama.model_file import read_gguf_header  # noqa: PLC0415

    metadata = read_gguf_header(path).metadata
    cost_of = metadata.get(COST_OF_KEY)
    if cost_of is None:
        return ""
    return f"cost-true: the times of {cost_of}, the text of {metadata.get(TEXT_OF_KEY)}"
