"""What becomes a secret is forgotten everywhere, in whatever order it, its name and more are typed.

Random secrets of random letters, ``_`` at either end too, under random names in several languages:
value first, name first, renamed, cut and pasted, undone, accepted as a suggestion, in addresses
that tell late that they hold one, with pauses and requests in between.  Once a secret was masked,
no eight letters in a row of it are in any memory, on the disk, or in what an engine gets.
"""

import asyncio
import os
import random
import string
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kept_texts import detokenised, kept_texts
from scripted_models import ByteVocabulary, ScriptedLoader, answering
from scripted_remote import ScriptedRemote
from typed_requests import document_of
from waiting import until

from speclsp.backends.http.messages import RemoteModel
from speclsp.backends.http.target import RemoteLoader
from speclsp.completer.local import LocalCompleter
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.documents import WorkspaceFolder
from speclsp.seam.edit import EditRequest
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.window.window import Window
from tests.support.secret_prefixes import n_shown

N_SEEDS = 20 * int(os.environ.get("SPECLSP_SECRETS_SEEDS", "2"))
"""Of each of the two tests; `make secrets SEEDS=20` runs 400."""
WAIT_S = 60
LETTERS = string.ascii_letters + string.digits
ABOVE = "def area_of(box):\n    return box.width * box.height\n\n\n"
BELOW = "\n\n\ndef width_of(box):\n    return box\n"

PLAIN = ("value", "x", "setting", "passwrd", "name_of_it", "p")
SECRET = ("password", "db_password", "user_passwd", "admin_passphrase", "passwort")
LINES = {
    "a.py": '{name} = "{value}"',
    "b.py": 'connect(host="db", {name}="{value}")',
    "c.yaml": "{name}: {value}",
    "d.ts": 'const {name} = "{value}";',
    "e.go": 'var {name} = "{value}"',
    "f.json": '  "{name}": "{value}",',
    "g.sh": "export {name}={value}",
}
ADDRESSES = {
    "h.go": 'db := open("root:{value}@tcp(localhost:3306)/app")',
    "i.py": 'db = open("postgres://app:{value}@db.local/app")',
}


def drawn_secret(draw: random.Random) -> str:
    letters = "".join(draw.choices(LETTERS, k=draw.randint(9, 22)))
    # It looks drawn, so that it is a secret under each of the names, and begins as no number does.
    letters = draw.choice(string.ascii_letters) + letters + str(draw.randrange(10))
    return draw.choice(["", "_", "__"]) + letters + draw.choice(["", "_", "__"])


class Typist:
    """The texts of a document, one after the other, in which a secret and its name are typed."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.secret = drawn_secret(draw)
        self.is_address = draw.random() < 0.25
        self.path = draw.choice([*(ADDRESSES if self.is_address else LINES)])
        self.line = (ADDRESSES if self.is_address else LINES)[self.path]

    def text(self, name: str, value: str, line: str | None = None) -> str:
        line = (line or self.line).replace("{name}", name).replace("{value}", value)
        return f"{ABOVE}{line}{BELOW}"

    def versions(self) -> Iterator[str]:
        """Yield the texts; between any two there may be a pause or a request."""
        if self.is_address:
            yield from self._address()
            return
        yield from self.draw.choice([self._value_first, self._name_first, self._deleted])()
        for _ in range(self.draw.randint(1, 3)):
            yield from self.draw.choice([self._renamed, self._pasted, self._undone])()

    def _typed(self, start: str, end: str) -> Iterator[str]:
        """Yield the texts on the way from one to another: typed, or at once."""
        if self.draw.random() < 0.3:
            yield end
            return
        head = next((n for n, (a, b) in enumerate(zip(start, end, strict=False)) if a != b), 0)
        tail = 0
        while tail < min(len(start), len(end)) - head and start[-1 - tail] == end[-1 - tail]:
            tail += 1
        for n_left in range(len(start) - tail, head - 1, -self.draw.randint(1, 3)):
            yield start[:n_left] + start[len(start) - tail :]
        step = self.draw.randint(1, 3)
        for n_typed in (*range(head, len(end) - tail, step), len(end) - tail):
            yield end[:n_typed] + end[len(end) - tail :]

    def _address(self) -> Iterator[str]:
        start = self.line.index("{value}") + len("{value}")
        for n_chars in (*range(1, start, 3), *range(start, len(self.line) + 1)):
            line = self.line[:n_chars]
            yield self.text("", self.secret, line)

    def _value_first(self) -> Iterator[str]:
        plain, named = self.draw.choice(PLAIN), self.draw.choice(SECRET)
        yield from self._typed(f"{ABOVE}{BELOW}", self.text(plain, self.secret))
        yield from self._typed(self.text(plain, self.secret), self.text(named, self.secret))

    def _name_first(self) -> Iterator[str]:
        yield from self._typed(self.text("", ""), self.text(self.draw.choice(SECRET), self.secret))

    def _deleted(self) -> Iterator[str]:
        """The value is typed, deleted, and typed again below another name."""
        plain = self.text(self.draw.choice(PLAIN), self.secret)
        yield from self._typed(f"{ABOVE}{BELOW}", plain)
        yield f"{ABOVE}{BELOW}"
        yield self.text("", "")
        yield from self._name_first()

    def _renamed(self) -> Iterator[str]:
        names = [self.draw.choice((*PLAIN, *SECRET)) for _ in range(3)]
        last = self.last
        for name in (*names, self.draw.choice(SECRET)):
            text = self.text(name, self.secret)
            yield from self._typed(last, text)
            last = text

    def _pasted(self) -> Iterator[str]:
        """The value is cut and pasted under another name, and that becomes a secret's."""
        plain = self.draw.choice(PLAIN)
        yield self.text(plain, self.secret)
        yield self.text(plain, "")
        yield self.text(plain, self.secret)
        yield self.text(self.draw.choice(SECRET), self.secret)

    def _undone(self) -> Iterator[str]:
        """The line is deleted, restored, and replaced by one of another name and restored."""
        last = self.last
        yield f"{ABOVE}{BELOW}"
        yield last
        yield self.text(self.draw.choice(PLAIN), self.secret)
        yield last

    last = ""
    """The latest text that was yielded; whoever takes the texts sets it."""


class Desk:
    """A window with a document that is typed into, and all that is remembered of it."""

    def __init__(self, typist: Typist, completer: LocalCompleter, settings: Settings) -> None:
        self.typist, self.completer = typist, completer
        self.now = 100.0
        self.window = Window(completer, settings, clock=lambda: self.now)
        self.uri, self.file = f"file:///p/{typist.path}", f"/p/{typist.path}"
        self.version = 0
        self.was_masked = False
        completer.open_folder(WorkspaceFolder(root="/p", name="p"))
        completer.start()
        until(lambda: completer.state() != "loading")

    def become(self, text: str) -> None:
        self.version += 1
        self.typist.last = text
        if self.version == 1:
            document = document_of(text, uri=self.uri, path=self.typist.path, file=self.file)
            self.window.open_document(document)
        else:
            self.window.change_document(self.uri, self.version, text)
        shown = self.window._documents.get(self.uri)
        assert shown is not None
        self.was_masked = self.was_masked or (
            self.typist.secret in text and PLACEHOLDER in shown.text
        )
        if self.was_masked:
            assert n_shown(self.typist.secret, shown.text) < 8, (text, shown.text)

    def ask(self, offset: int, **fields: Any) -> None:
        request = CompletionRequest(
            uri=self.uri, version=self.version, offset=offset, wait_for_model=True, **fields
        )
        result = self.window.ask(request, CancellationToken()).result(WAIT_S)
        if result.generated.text:
            self.window.shown(result.generated.completion_id)
            if self.typist.draw.random() < 0.5:
                self.window.accepted(result.generated.completion_id)

    def ask_for_edit(self, offset: int) -> None:
        request = EditRequest(
            uri=self.uri, version=self.version, offset=offset, wait_for_model=True
        )
        result = asyncio.run(self.window.next_edits.next_edit(request, CancellationToken()))
        if result.hunks:
            draw = self.typist.draw
            done = draw.choice([self.window.next_edits.declined, self.window.next_edits.accepted])
            done(result.completion_id)

    def until_next_job(self) -> None:
        """Wait until the engine thread takes a job; what it was doing is over then."""
        is_next = threading.Event()
        self.completer._engine.thread._queue.put_control(is_next.set)
        assert is_next.wait(WAIT_S)

    def remembered(self) -> Iterator[str]:
        """Yield all texts that the window and the completer keep beside the documents."""
        window, completer, vocabulary = self.window, self.completer, ByteVocabulary()
        self.until_next_job()
        for change in window._documents.changes():
            yield "".join(change.texts)
        for entry in window._documents._trail._entries:
            yield "".join((*entry.before, *entry.old, *entry.new, *entry.after))
        for one in window._ledger._by_id.values():
            yield one.lines_before + one.text
            yield one.whole.text
        for text in (*window._unlearned, *window._learned):
            yield text.whole
        for proposed in window.next_edits._proposed.values():
            yield "".join((proposed.before, proposed.text, *map("".join, proposed.hunks)))
        yield from ("".join(hunk) for _, hunk in window.next_edits._declined)
        for deleted in completer.tokens.deleted._texts:
            yield deleted.text
        models = completer._engine.models
        for served in filter(None, (models._target, models._edits)):
            for tokens in served.generated.get(completer.tokens, ()):
                yield detokenised(tokens, vocabulary)
            for prompts in served.prompts._documents.values():
                yield from (c.chunk.text for e in prompts._excerpts for c in e.chunks.chunks)
        for texts in completer._engine._accepted.values():
            for accepted in texts._by_root.values():
                assert accepted.is_ready.wait(WAIT_S)
                yield from (detokenised(part, vocabulary) for part in accepted.parts)
            yield from (taken.accepted.whole for taken in texts._waiting)
        for chunks in completer._context._chosen.values():
            yield from (chunk.text for chunk in chunks)


Asks = Callable[[Desk, str], None]


def type_all(desk: Desk, ask: Asks, gone: Callable[[], Iterator[str]]) -> bool:
    """Type everything; return whether the secret was masked ever.

    ``gone`` yields what an engine got, and what was written, since it was last asked.
    """
    draw, secret = desk.typist.draw, desk.typist.secret
    for text in desk.typist.versions():
        desk.become(text)
        desk.now += draw.choice([0.1, 0.1, 2.0])
        desk.until_next_job()
        former = [*gone()]  # until now
        if draw.random() < 0.35:
            ask(desk, text)
        # What is forgotten is gone before the next request's text is made.
        for kept in (*desk.remembered(), *gone()) if desk.was_masked else ():
            assert n_shown(secret, kept) < 8, (text, kept)
        del former
    return desk.was_masked


@pytest.fixture
def traces(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "traces" / name))
    return tmp_path / "traces"


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_nothing_of_a_secret_is_remembered_tokenised_or_kept(seed, traces, monkeypatch):
    typist = Typist(random.Random(seed))
    tokenised: list[str] = []
    tokenize = ByteVocabulary.tokenize

    def recording(self, text):
        tokenised.append(text)
        return tokenize(self, text)

    monkeypatch.setattr(ByteVocabulary, "tokenize", recording)
    settings = Settings(lookup_cache_dynamic=(str(traces.parent / "learned.ngrams"),))
    loader = ScriptedLoader()
    completer = LocalCompleter(settings, loader=loader)
    desk = Desk(typist, completer, settings)

    def ask(desk, text):
        copies = [] if desk.was_masked else [f"say({typist.secret})\n", typist.secret]
        rest = typist.draw.choice(["print(box)", *copies])
        loader.target._predict = answering(rest)
        at_name = text.rfind("\n", 0, text.index(BELOW) + 1) + 1
        desk.ask(typist.draw.choice([len(ABOVE) - 1, len(text), text.index(BELOW), at_name]))
        assert completer._accepted.wait_done(WAIT_S)

    def gone():
        assert completer._accepted.wait_done(WAIT_S)
        found, tokenised[:] = [*tokenised], []
        yield from found
        yield from kept_texts(traces, ByteVocabulary())

    try:
        assert type_all(desk, ask, gone)
    finally:
        desk.window.close()
    for text in kept_texts(traces, ByteVocabulary()):
        assert n_shown(typist.secret, text) < 8


class SayingRemote(ScriptedRemote):
    """A remote engine of next edits and completions that copies what it is told to."""

    def __init__(self) -> None:
        super().__init__(
            model=RemoteModel(kind="llama-server", name="zeta-2", n_ctx=4096, takes_text=True)
        )


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_nothing_of_a_secret_is_sent_to_a_remote_engine(seed):
    typist = Typist(random.Random(seed))
    engine = SayingRemote()
    settings = replace(
        Settings(persist=False, idle_work="never", edit_format="zeta-2"),
        engine_url="http://desk:8080",
    )
    loader = RemoteLoader(ScriptedLoader(), lambda _settings, _key: engine)
    desk = Desk(typist, LocalCompleter(settings, loader=loader), settings)

    def ask(desk, text):
        offset = typist.draw.choice([10, len(ABOVE) - 1, len(text)])
        if typist.draw.random() < 0.7:
            desk.ask_for_edit(offset)
        else:
            desk.ask(offset)

    def gone():
        sent, engine.sent[:] = [*engine.sent], []
        yield from map(repr, sent)

    try:
        assert type_all(desk, ask, gone)
    finally:
        desk.window.close()
