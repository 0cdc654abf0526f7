"""What is tokenised, remembered, kept and logged never holds a secret of a buffer or the model."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from indexed_project import write
from kept_texts import kept_texts
from scripted_models import ByteVocabulary, ScriptedLoader, answering
from secret_forms import Planted, planted_secrets
from typed_requests import document_of, request_between, typed_completer
from waiting import until

from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.events import LogLine
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings

WAIT_S = 60
BEFORE = "import os\n\n\ndef width_of(box):\n    return box.width\n\n\n"
AFTER = "\n\n\ndef area_of(box):\n    "


@pytest.fixture
def traces(tmp_path, monkeypatch):
    folder = tmp_path / "traces"
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(folder / name))
    return folder


@pytest.fixture
def tokenised(monkeypatch):
    """All texts that become tokens: prompts, buffers, files, what the drafters look at."""
    texts: list[str] = []
    real = ByteVocabulary.tokenize

    def recording(self, text):
        texts.append(text)
        return real(self, text)

    monkeypatch.setattr(ByteVocabulary, "tokenize", recording)
    return texts


class Session:
    """A completer on a project, whose model says what it is told to."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root = root
        self.loader = ScriptedLoader()
        self.completer = typed_completer(settings, loader=self.loader)
        self.completer.open_folder(WorkspaceFolder(root=str(root), name="project"))
        self.completer.start()
        until(lambda: self.completer.state() == "ready")

    def open(self, name: str, text: str, version: int = 1) -> None:
        file = str(self.root / name)
        document = document_of(text, uri=f"file://{file}", path=name, version=version, file=file)
        (self.completer.open_document if version == 1 else self.completer.change_document)(document)

    def type(self, name: str, text: str) -> None:
        """Bring a document to a text, the cursor at its end."""
        file = str(self.root / name)
        uri = f"file://{file}"
        self.completer.brought_to(request_between(text, uri=uri, path=name, file=file))

    def ask(
        self, name: str, prefix: str, suffix: str = "", says: str = "return 1"
    ) -> CompletionResult:
        self.loader.target._predict = answering(says)
        file = str(self.root / name)
        request = request_between(
            uri=f"file://{file}",
            path=name,
            repo_name="project",
            prefix=prefix,
            suffix=suffix,
            file=file,
        )
        return self.completer.complete(request, CancellationToken()).result(WAIT_S)

    def messages(self) -> Iterator[str]:
        while (event := self.completer.next_event(0.05)) is not None:
            yield event.message if isinstance(event, LogLine) else repr(event)


def type_among_secrets(root: Path, planted: list[Planted], settings: Settings) -> list[str]:
    for number, secret in enumerate(planted[::2]):
        write(root / f"disk_{number}" / secret.name, BEFORE + secret.lines + AFTER)
    session = Session(root, settings)
    until(lambda: session.completer.statistics().index.n_files >= 45)
    n_accepted = 0
    for number, secret in enumerate(planted):
        name = f"buffer_{number}/{secret.name}"
        text = BEFORE + secret.lines + AFTER
        session.open(name, BEFORE)
        session.open(name, text, 2)
        # The model says the secret itself, in the line that it is usual in, and behind it.
        for says in ("return 1", f"f()\n{secret.lines}\n"):
            result = session.ask(name, text, says=says)
            if result.generated.text:
                session.completer.accepted(result.generated.completion_id)
                n_accepted += 1
    assert n_accepted > 50
    session.completer.statistics()
    session.completer.close()
    return list(session.messages())


def seen(planted: list[Planted], texts: list[str]) -> set[str]:
    whole = "\n".join(texts)
    return {p.kind for p in planted for secret in p.secrets if secret[1:-1] in whole}


@pytest.mark.slow
def test_no_secret_is_tokenised_kept_or_logged(tmp_path, traces, tokenised):
    planted = planted_secrets(2)
    messages = type_among_secrets(tmp_path / "project", planted, Settings())
    kept = list(kept_texts(traces, ByteVocabulary()))
    assert any(PLACEHOLDER in text for text in tokenised)
    assert any("return box.width" in text for text in kept)
    assert seen(planted, tokenised) == set()
    assert seen(planted, messages) == set()
    assert seen(planted, kept) == set()


def test_with_masking_off_the_same_search_finds_them_all(tmp_path, traces, tokenised):
    planted = planted_secrets(2)
    type_among_secrets(tmp_path / "project", planted, Settings(mask_secrets=False))
    kept = list(kept_texts(traces, ByteVocabulary()))
    assert seen(planted, tokenised) == {p.kind for p in planted}
    assert len(seen(planted, kept)) > 20


def test_a_completion_is_cut_before_a_placeholder_and_refused_on_a_secrets_line(tmp_path, traces):
    session = Session(tmp_path, Settings())
    try:
        text = 'password = "hunter22"\n\n\ndef f():\n    '
        session.open("a.py", text)
        cut = session.ask("a.py", text, says=f"g()\n    x = {PLACEHOLDER}\n")
        assert cut.generated.text == "g()\n    x ="
        again = session.ask("a.py", text, says=f"g()\n    x = {PLACEHOLDER}\n")  # now drafted
        assert again.generated.drafted
        assert all(end <= len(again.generated.text) for _, end in again.generated.drafted)
        refused = session.ask("a.py", 'password = "hun', 'ter22"\n')
        assert (refused.generated.text, refused.source) == ("", "filter")
        assert session.ask(".env", "PORT=").source == "filter"
        write(tmp_path / ".gitignore", "private/\n")
        session.completer.reindex()
        assert session.ask("private/a.py", "x = ").source == "filter"
        assert session.ask("public/a.py", "x = ").generated.text
    finally:
        session.completer.close()


def type_with_acceptances(root: Path, planted: list[Planted], settings: Settings) -> list[str]:
    """Type each secret's lines key by key, accepting some characters three times; leave the line.

    Returns what was logged.
    """
    session = Session(root, settings)
    draw = random.Random(7)
    n_accepted = 0
    for number, secret in enumerate(planted):
        name, whole = f"buffer_{number}/{secret.name}", BEFORE + secret.lines
        starts = sorted(draw.sample(range(len(BEFORE), len(whole)), 3))
        for n_typed in range(len(BEFORE), len(whole)):
            session.type(name, whole[:n_typed])
            if n_typed in starts:
                says = whole[n_typed : n_typed + draw.randint(10, 30)].partition("\n")[0]
                result = session.ask(name, whole[:n_typed], says=says)
                session.type(name, whole[:n_typed] + result.generated.text)
                session.completer.accepted(result.generated.completion_id)
                n_accepted += bool(result.generated.text)
        session.type(name, whole)
        below = f"{whole}\n\n\n"
        result = session.ask(name, below, says="return box.height")
        session.completer.accepted(result.generated.completion_id)
        session.ask(name, f"{below}{result.generated.text}\n")
    assert n_accepted > 25
    session.completer.close()
    return list(session.messages())


def fragments(planted: list[Planted], texts: list[str]) -> set[str]:
    """Return the kinds of the secrets of which ten characters in a row stand in the texts."""
    whole = "\n".join(texts)
    return {
        secret.kind
        for secret in planted
        for text in secret.secrets
        for start in range(len(text) - 9)
        if text[start : start + 10] in whole
    }


@pytest.mark.slow
def test_nothing_is_kept_of_secrets_that_were_accepted_in_parts(tmp_path, traces):
    planted = planted_secrets(3)[::3]
    messages = type_with_acceptances(tmp_path / "project", planted, Settings())
    kept = list(kept_texts(traces, ByteVocabulary()))
    assert any("return box.height" in text for text in kept)
    assert fragments(planted, [*kept, *messages]) == set()


@pytest.mark.slow
def test_with_masking_off_the_parts_are_found(tmp_path, traces):
    planted = planted_secrets(3)[::3]
    type_with_acceptances(tmp_path / "project", planted, Settings(mask_secrets=False))
    assert len(fragments(planted, list(kept_texts(traces, ByteVocabulary())))) > 8
