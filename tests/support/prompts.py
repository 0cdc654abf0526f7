"""The prompt of one request by itself, as benchmarks and tests want it."""

from speclsp.prompt.chunks import NO_CHUNKS, ShownChunks
from speclsp.prompt.families import FimFamily
from speclsp.prompt.prompt import FimPrompt, FimText, PromptBudget, PromptExcerpt, PromptLayout
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
    excerpt: PromptExcerpt | None = None,
    layout: FimLayout = "anchored",
    chunks: ShownChunks = NO_CHUNKS,
) -> FimPrompt:
    """Lay out the prompt for a cursor between ``prefix`` and ``suffix``, the whole texts.

    ``excerpt`` is that of the document's previous prompt, or None; it is continued where possible.
    """
    prompts = PromptLayout(family=family, vocabulary=vocabulary, layout=layout)
    text = FimText(repo_name=repo_name, path=path, prefix=prefix, suffix=suffix)
    if excerpt is not None:
        continued = prompts.continued(text, budget, excerpt)
        if continued is not None:
            return continued
    return prompts.fresh(text, budget, near=excerpt, chunks=chunks)
