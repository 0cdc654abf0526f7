"""How much of a next edit's prompt is evaluated: only what follows the first changed token."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typed_requests import document_of
from waiting import until

from speclsp.common_ends import common_head
from speclsp.completer import edit_job, edit_prompts
from speclsp.completer.edit_prompts import edit_tokens
from speclsp.completer.local import LocalCompleter
from speclsp.edits.formats import FORMATS
from speclsp.embedded import embedded_draft
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.edit import EditRequest
from speclsp.settings import Settings
from speclsp.window.window import Window

pytestmark = pytest.mark.real

SOURCE = Path(__file__).parents[2] / "fixtures" / "sample_project"
N_EDITS = 20
URI = "file:///p/a.py"


@dataclass(frozen=True)
class Asked:
    """Tokens of a request's prompt: all, those that no earlier one began with, those evaluated."""

    n_prompt: int
    n_new: int
    n_evaluated: int


def session(edit_format: str, *, completes: bool) -> Iterator[Asked]:
    """Replace twenty names, each a few lines further on, and ask after each."""
    settings = Settings(
        model=str(embedded_draft()),
        persist=False,
        idle_work="never",
        edit_format=edit_format,
        index_project=False,
        n_context=0,
        threads=1,
    )
    completer = LocalCompleter(settings)
    window = Window(completer, settings)
    completer.start()
    lines = max((path.read_text() for path in SOURCE.rglob("*.py")), key=len).splitlines(
        keepends=True
    )[:60]
    dice = random.Random(37)
    prompts: list[list[int]] = []
    try:
        window.open_document(document_of("".join(lines), uri=URI, language_id="python"))
        row = 10
        for version in range(2, N_EDITS + 2):
            row = (row + dice.randint(1, 6)) % (len(lines) - 1)
            while not lines[row].strip():
                row += 1
            lines[row] = lines[row].rstrip("\n") + f"  # {version}\n"
            text, offset = "".join(lines), len("".join(lines[: row + 1])) - 1
            window.change_document(URI, version, text)
            if completes:
                request = CompletionRequest(
                    uri=URI, version=version, offset=offset, wait_for_model=True, trigger="invoked"
                )
                window.ask(request, CancellationToken()).result()
            asked = window.next_edits.masked_request(
                EditRequest(uri=URI, version=version, offset=offset, wait_for_model=True)
            )
            assert isinstance(asked, EditRequest)
            until(lambda: completer.state() != "loading")
            explained = completer.explain_edit(asked).result()
            vocabulary = completer._tokenizer.vocabulary
            tokens = edit_tokens(explained.text, FORMATS[edit_format], vocabulary)
            stats = completer.submit(asked, CancellationToken()).result().stats
            n_common = max((common_head(one, tokens) for one in prompts), default=0)
            prompts.append(tokens)
            yield Asked(stats.n_prompt, len(tokens) - n_common, stats.n_prompt_evaluated)
    finally:
        window.close()


@pytest.mark.parametrize(
    ("edit_format", "completes"),
    [("sweep-8", False), ("sweep-8", True), ("sweep-21", False), ("zeta-1", False)],
)
def test_a_request_evaluates_what_follows_the_first_changed_token(
    edit_format, completes, monkeypatch
):
    """Also with a completion before each request; states of fewer than 48 tokens are not kept."""
    monkeypatch.setattr(edit_job, "_GROWTH", 0)  # a few tokens do for answers
    monkeypatch.setattr(edit_job, "LEAST_PREDICTED", 4)
    monkeypatch.setattr(edit_prompts, "LEAST_PREDICTED", 4)
    asked = list(session(edit_format, completes=completes))
    assert len(asked) == N_EDITS
    for one in asked:
        assert one.n_evaluated <= one.n_new + 48, asked
