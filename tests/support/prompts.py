"""The prompt of one request by itself, as benchmarks and tests want it."""

from speclsp.prompt.chunks import NO_CHUNKS, ChunkWindow
from speclsp.prompt.families import FimFamily
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptLayout, PromptWindow
from speclsp.settings import FimLayout
from speclsp.vocabulary_protocol import Vocabulary


def build_prompt(
    family: FimFamily,
    vocabulary: Vocabulary,
    *,
    prefix: str,
    suffix: str = "",
    repo_name: str = "demo",
    path: str = "pkg/mod.py",
    budget: PromptBudget,
    window: PromptWindow | None = None,
    layout: FimLayout = "anchored",
    chunks: ChunkWindow = NO_CHUNKS,
) -> FimPrompt:
    """Lay out the prompt for a cursor between ``prefix`` and ``suffix``, the whole texts.

    ``window`` is that of the document's previous prompt, or None; it is continued where possible.
    """
    prompts = PromptLayout(family=family, vocabulary=vocabulary, layout=layout)
    text = FimText(repo_name=repo_name, path=path, prefix=prefix, suffix=suffix)
    if window is not None:
        continued = prompts.continued(text, budget, window)
        if continued is not None:
            return continued
    return prompts.fresh(text, budget, near=window, chunks=chunks)
