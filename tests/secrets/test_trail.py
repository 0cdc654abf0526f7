"""The trail of changes, which is in prompts of next edits, holds no secret, typed or deleted."""

from collections.abc import Iterator

import pytest
from scripted_completer import ScriptedCompleter
from secret_forms import planted_secrets
from typed_requests import document_of

from speclsp.settings import Settings
from speclsp.window.masked_documents import MaskedDocuments
from tests.support.secret_forms import FORMS
from tests.support.secret_prefixes import AFTER, BEFORE, shows

URI = "file:///p/a"


def trails(path: str, texts: list[str]) -> Iterator[str]:
    """Yield all text of the trail after each text of a document."""
    now = 0.0
    documents = MaskedDocuments(
        ScriptedCompleter(Settings()), masks=True, masks_late=False, clock=lambda: now
    )
    documents.open(document_of(texts[0], uri=URI, path=path))
    for version, text in enumerate(texts[1:], 2):
        now += 0.3
        documents.change(URI, version, text)
        yield "\n".join(
            part
            for change in documents.changes()
            for part in (change.old, change.new, change.before, change.after)
        )


def typed_and_deleted(line: str, step: int) -> list[str]:
    """A line typed, the next one too, and both deleted."""
    ends = [*range(0, len(line), step), len(line)]
    typed = [BEFORE + line[:end] + AFTER for end in ends]
    return [
        *typed,
        BEFORE + line + "\nx = 1\n" + AFTER,
        BEFORE + "\nx = 1\n" + AFTER,
        BEFORE + AFTER,
    ]


@pytest.mark.parametrize("is_told_before", [True, False])
def test_what_is_typed_and_deleted_of_a_secret_is_not_in_the_trail(is_told_before):
    """Of a key that is recognised only when it is whole, not from then on."""
    for form in FORMS:
        if form.is_told_before != is_told_before:
            continue
        line, secret = form.drawn(0)
        texts = typed_and_deleted(line, 3)
        first = 0 if is_told_before else texts.index(BEFORE + line + AFTER)
        for version, text in enumerate(trails(form.name, texts), 1):
            assert version < first or not shows(secret, text), (form, text)


def test_planted_secrets_are_not_in_the_trail_once_they_are_whole():
    for one in planted_secrets():
        texts = [BEFORE, BEFORE + one.lines + AFTER, BEFORE + AFTER, BEFORE + one.lines, BEFORE]
        for text in trails(one.name, texts):
            assert not any(secret in text for secret in one.secrets), one.kind
