"""What is accepted: kept and counted by workspace, whatever happens to the disk."""

import contextlib
import dataclasses
import sqlite3
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from scripted_models import ByteVocabulary, ScriptedLoader
from typed_requests import request_between
from waiting import until

from speclsp.completer import accepted
from speclsp.completer.accepted import AcceptedTexts
from speclsp.completer.learned_files import LearnedFiles, LearnInto, learn_into
from speclsp.completer.local import LocalCompleter
from speclsp.drafting.drafter import sum_of
from speclsp.errors import StoreError
from speclsp.ngrams.files import open_statistics
from speclsp.seam.documents import AcceptedText, WorkspaceFolder, name_of
from speclsp.seam.events import EventQueue, LogLine, Problem
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import BusyError
from speclsp.storage.locations import WaitLimit, accepted_store_path

WAIT_S = 60
BUSY = BusyError("another process writes.")


class Kept:
    """Accepted texts of which each file's folder is its workspace."""

    def __init__(self, **options: Any) -> None:
        self.events = EventQueue()
        settings = Settings(**options)
        self.into = learn_into(settings)
        self.files = LearnedFiles(self.events)
        self.texts = AcceptedTexts(settings, self.events, self.files)
        self.use("bytes")

    def use(self, fingerprint: str) -> None:
        self.texts.use_tokenizer(ScriptedLoader(fingerprint=fingerprint).tokenizer(Settings()))

    def take(self, before: str, text: str, root: str = "/r") -> None:
        self.texts.take(
            AcceptedText(path="a.py", file=f"{root}/a.py", before=before, text=text),
            root,
            self.into,
        )
        assert self.texts.wait_done(WAIT_S)

    def close(self) -> None:
        self.texts.close()

    def drafted_from(self, root: str = "/r") -> bytes:
        of_root = self.texts.of_root(root)
        assert self.texts.wait_done(WAIT_S)
        return bytes(of_root.tokens.tolist())

    def followers(self, ngram: bytes, root: str = "/r") -> dict[str, int]:
        of_root = self.texts.of_root(root)
        assert self.texts.wait_done(WAIT_S)
        found = sum_of(of_root.counts_without(()), tuple(ngram))
        return {chr(token): count for token, count in found.items()}

    def logged(self) -> list[tuple[str, str]]:
        lines = []
        while (event := self.events.next(0.0)) is not None:
            assert isinstance(event, LogLine)
            lines.append((event.level, event.message))
        return lines


@pytest.fixture
def make(closed):
    return lambda **options: closed(Kept(**options))


def test_what_is_accepted_counts_at_once_and_in_the_next_session(make):
    kept = make()
    kept.take("x = a", "bcab")
    assert kept.drafted_from() == b"x = abcab"
    assert kept.followers(b"ab") == {"c": 1}
    # What stood before the accepted text is no follower.
    assert kept.followers(b"x ") == {}
    assert kept.followers(b"= a") == {"b": 1}
    assert kept.followers(b"ab", "/other") == {}
    kept.close()
    again = make()
    assert again.drafted_from() == b"x = abcab"
    assert again.followers(b"ab") == {"c": 1}
    again.take("", "abd")
    assert again.followers(b"ab") == {"c": 1, "d": 1}
    assert again.drafted_from() == b"x = abcababd"


def test_another_vocabulary_counts_the_same_texts(make):
    kept = make()
    kept.take("", "abc")
    kept.use("others")
    assert kept.followers(b"ab") == {"c": 1}
    assert kept.drafted_from() == b"abc"  # the text is tokenised again
    kept.take("", "abd")
    assert kept.followers(b"ab") == {"c": 1, "d": 1}


def test_all_kept_texts_are_counted_and_the_latest_are_drafted_from(make, monkeypatch):
    kept = make()
    for text in ("xabc", "xabd", "xabd"):
        kept.take("xa", text[2:])
    kept.close()
    monkeypatch.setattr(accepted, "_N_DRAFTED_FROM", 1)
    again = make()
    assert again.drafted_from() == b"xabd"
    assert again.followers(b"ab") == {"c": 1, "d": 2}
    assert again.followers(b"xa") == {"b": 3}
    assert again.followers(b"x") == {}


def test_a_request_waits_once_and_only_for_the_latest_texts(make, monkeypatch):
    kept = make()
    for text in "abcd":
        kept.take("", text)
    kept.close()
    monkeypatch.setattr(accepted, "_N_DRAFTED_FROM", 2)
    tokenised: list[str] = []
    may_read, may_count = threading.Event(), threading.Event()
    tokenize = ByteVocabulary.tokenize

    def slowly(vocabulary, text):
        (may_read if len(tokenised) < 2 else may_count).wait(WAIT_S)
        tokenised.append(text)
        return tokenize(vocabulary, text)

    waits: list[float | None] = []
    wait = threading.Event.wait

    def counted(event, timeout=None):
        waits.extend([timeout] * (not event.is_set()))
        return wait(event, timeout)

    monkeypatch.setattr(ByteVocabulary, "tokenize", slowly)
    monkeypatch.setattr(threading.Event, "wait", counted)
    monkeypatch.setattr(accepted, "_READ_S", 0.02)
    again = make()
    for _ in range(3):
        assert not again.texts.of_root("/r").tokens.size
    assert waits.count(0.02) == 1
    may_read.set()
    until(lambda: again.texts.of_root("/r").tokens.size)
    assert tokenised == ["c", "d"]
    may_count.set()
    assert again.drafted_from() == b"cd"
    again.use("others")
    may_count.clear()
    tokenised.clear()
    monkeypatch.setattr(accepted, "_READ_S", WAIT_S)
    assert bytes(again.texts.of_root("/r").tokens.tolist()) == b"cd"
    assert tokenised == ["c", "d"]
    may_count.set()


def test_a_disk_that_cannot_be_written_is_one_warning(make, tmp_path):
    (tmp_path / "state").write_text("no folder")
    kept = make()
    for _ in range(2):
        kept.take("", "abc")
    assert kept.followers(b"ab") == {"c": 2}
    ((level, message),) = kept.logged()
    assert level == "warning"
    assert message.startswith("accepted completions are not kept: ")


def test_another_writer_is_no_failure(make, monkeypatch):
    kept = make()
    with monkeypatch.context() as patched:
        patched.setattr(AcceptedStore, "append", Mock(side_effect=BUSY))
        kept.take("", "abc")
    kept.take("", "abd")
    assert kept.logged() == [("warning", "1 accepted texts are not kept: another process writes.")]
    assert AcceptedStore.open().recent("/r", 9) == [("abd", 0, "")]


def test_what_a_locked_store_did_not_take_is_said_once_at_the_end():
    """Each text once waited two seconds for itself, also while the server shut down."""
    limit, events = WaitLimit(), EventQueue()
    texts = AcceptedTexts(Settings(), events, LearnedFiles(events, limit), limit)
    AcceptedStore.open().close()
    other = sqlite3.connect(accepted_store_path(), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    limit.end_in(0.0)
    for number in range(20):
        texts.take(AcceptedText(path="a.py", file="", before="", text=f"x{number}"), "/r", None)
    texts.close()
    assert texts.wait_done(WAIT_S)
    other.close()
    events.close()
    lines = [event for event in iter(events.next, None) if isinstance(event, LogLine)]
    assert [line.level for line in lines] == ["warning"]
    assert lines[0].message.startswith("20 accepted texts are not kept: ")
    assert "database is locked" in lines[0].message


def test_closing_bounds_the_waits_of_all_that_the_engine_keeps():
    completer = LocalCompleter(Settings(persist=False), loader=ScriptedLoader())
    engine = completer._engine
    limit = engine._limit
    assert {engine.indexes._limit, engine.learned_files._limit, completer._accepted._limit} == {
        limit
    }
    assert limit.seconds(60.0) == 60.0
    completer.close()
    assert limit.seconds(60.0) <= 2.0


def test_a_changed_statistics_file_leaves_the_texts_and_gets_no_more_counts(tmp_path):
    former, later = tmp_path / "former.ngrams", tmp_path / "later.ngrams"
    plain = Settings(persist=False)
    with_former, with_later = (
        dataclasses.replace(plain, lookup_cache_dynamic=[str(path)]) for path in (former, later)
    )
    loader = ScriptedLoader()
    vocabulary = loader.tokenizer(plain).vocabulary
    completer = LocalCompleter(plain, loader=loader)
    completer.start()
    until(lambda: completer.state() == "ready")
    for settings, text in ((plain, "abc"), (with_former, "abd"), (with_later, "abe")):
        completer.apply_settings(settings)
        completer.learn(AcceptedText(path="a.py", file="/r/a.py", before="", text=text))
    completer.apply_settings(plain)
    assert completer.wait_idle(WAIT_S)
    written = later.read_bytes()  # before the server ends
    completer.learn(AcceptedText(path="a.py", file="/r/a.py", before="", text="abf"))
    assert completer.wait_idle(WAIT_S)
    (accepted_texts,) = completer.sources(request_between("", uri="u", file="/r/a.py")).accepted
    assert bytes(accepted_texts.tolist()) == b"abcabdabeabf"
    completer.close()
    assert later.read_bytes() == written
    for path, follower in ((former, "d"), (later, "e")):
        tables = open_statistics(path, vocabulary, "dynamic").tables
        assert tables.followers(tuple(b"ab")) == {ord(follower): 1}


def test_masking_and_persistence_stay_until_a_restart(tmp_path):
    former = Settings(persist=False)
    completer = LocalCompleter(former, loader=ScriptedLoader())
    completer.start()
    until(lambda: completer.state() == "ready")
    completer.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    index = completer._project._opened[str(tmp_path)]
    changed = Settings(persist=True, mask_secrets=False)
    assert set(completer.apply_settings(changed)) == {"persist", "mask_secrets"}
    assert completer._project._opened[str(tmp_path)] is index
    completer.learn(AcceptedText(path="a.py", file="/r/a.py", before="x", text="abc"))
    completer.close()
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "cache").exists()


# --- what became a secret ------------------------------------------------------------------------

SECRET = "_Kq83mZvR9wL2x_"


def test_what_became_a_secret_is_taken_out_of_memory_store_and_statistics(tmp_path):
    file = tmp_path / "learned.ngrams"
    kept = Kept(lookup_cache_dynamic=(str(file),))
    kept.take("p = '", f"{SECRET}'\n")
    kept.take("", "area = width * height\n")
    kept.take("", f"say({SECRET[:9]})\n", root="/other")
    kept.files.fold_all()
    kept.take("", f"x = {SECRET}\n")  # in the journal
    assert SECRET.encode() in kept.drafted_from()
    kept.texts.forget(Pieces([SECRET]))
    assert kept.drafted_from() == b"area = width * height\n"
    assert kept.drafted_from("/other") == b""
    assert kept.followers(b"Kq8") == {}
    assert kept.followers(b"wid") == {"t": 1}
    store = AcceptedStore.open()
    assert store.texts() == ["area = width * height\n"]
    store.close()
    tables = open_statistics(file, None).tables
    assert tables.followers(tuple(b"wid")) == {ord("t"): 1}
    inside = {SECRET[n : n + 2].encode() for n in range(len(SECRET) - 1)}
    for order in (2, 3, 4):
        table = tables.by_order[order]
        for gram in table.grams.tolist():
            assert not any(bytes(gram[n : n + 2]) in inside for n in range(order - 1))
        assert all(bytes((*g[-1:], n)) not in inside for g in table.grams.tolist()
                   for n in table.followers(g))  # fmt: skip
    kept.close()
    assert SECRET[:8].encode() not in accepted_store_path().read_bytes()
    assert not file.with_name(f".{file.name}.journal").exists()


def test_a_text_is_forgotten_by_its_name_and_all_else_with_its_letters():
    kept = Kept()
    first = AcceptedText(path="a.py", file="/r/a.py", before="p = '", text=f"{SECRET}'\n")
    kept.take(first.before, first.text)
    kept.take("", f"say({SECRET[3:12]})\n")
    kept.take("", "area = width * height\n")
    kept.texts.forget_learned("of no text", ((0, 9),))
    assert kept.drafted_from().count(b"\n") == 3
    start = first.whole.index(SECRET)
    kept.texts.forget_learned(first.name, ((start, start + len(SECRET)),))
    assert kept.texts.wait_done(WAIT_S)
    assert kept.drafted_from() == b"area = width * height\n"
    kept.close()


def test_a_secret_too_short_to_be_found_is_looked_for_once_in_a_store_that_fails(monkeypatch):
    events = EventQueue()
    texts = AcceptedTexts(Settings(), events, LearnedFiles(events))
    waiting = AcceptedText(path="a.py", file="/r/a.py", before="", text="pin = 'Kq8'\n")
    texts.take(waiting, "/r", LearnInto())
    full = Mock(side_effect=[StoreError("the disk is full.")] * 8 + [[]])
    monkeypatch.setattr(AcceptedStore, "texts", full)
    texts.forget_learned(waiting.name, ((7, 10),))
    assert texts.wait_done(WAIT_S)
    assert full.call_count == 1
    texts.close()


def test_the_files_of_another_vocabulary_keep_a_secret_until_theirs_is_loaded(tmp_path):
    file = tmp_path / "learned.ngrams"
    kept = Kept(lookup_cache_dynamic=(str(file),))
    kept.take("", f"join({SECRET}, other)\n")
    kept.use("other")
    kept.texts.forget(Pieces([SECRET]))
    assert kept.texts.wait_done(WAIT_S)
    kept.use("bytes")
    kept.close()
    tables = open_statistics(file, None).tables
    assert tables.followers(tuple(SECRET[2].encode())) == {}
    assert tables.followers((ord("o"),)) == {ord("i"): 1, ord("t"): 1}


def test_what_became_a_secret_is_removed_later_if_another_process_writes(monkeypatch):
    kept = Kept()
    kept.take("p = '", f"{SECRET}'\n")
    with monkeypatch.context() as busy:
        busy.setattr(AcceptedStore, "remove", Mock(side_effect=BUSY))
        kept.texts.forget(Pieces([SECRET]))
        assert kept.drafted_from() == b""  # nor is it read
    kept.take("", "area = width\n")
    store = AcceptedStore.open()
    assert store.texts() == ["area = width\n"]
    store.close()
    kept.close()


@pytest.mark.parametrize("by_name", [False, True])
def test_what_became_a_secret_is_removed_once_a_store_that_failed_can_be_written(
    monkeypatch, by_name
):
    kept = Kept()
    text = f"p = '{SECRET}'\n"
    kept.take("", text)

    def forget() -> None:
        if by_name:
            start = text.index(SECRET)
            place = (start, start + len(SECRET))
            kept.texts.forget_learned(name_of(text), (place,))
        else:
            kept.texts.forget(Pieces([SECRET]))
        assert kept.texts.wait_done(WAIT_S)

    full = StoreError("the disk is full.")
    with monkeypatch.context() as broken:
        broken.setattr(AcceptedStore, "append", Mock(side_effect=full))
        kept.take("", "area = width\n")
        for method in ("remove", "texts"):
            broken.setattr(AcceptedStore, method, Mock(side_effect=full))
        forget()
        assert kept.drafted_from() == b""
    kept.take("", "height = 2\n")
    with contextlib.closing(AcceptedStore.open()) as store:
        assert store.texts() == []
    kept.close()
    assert SECRET.encode() not in accepted_store_path().read_bytes()
    events = [*iter(lambda: kept.events.next(0.0), None)]
    assert [type(event) for event in events] == [LogLine, Problem]


def test_a_secret_that_cannot_be_removed_is_a_problem_at_the_end(monkeypatch):
    kept = Kept()
    kept.take("", f"p = '{SECRET}'\n")
    monkeypatch.setattr(AcceptedStore, "remove", Mock(side_effect=BUSY))
    for number in range(99):
        kept.texts.forget(Pieces([f"{SECRET}{number}" * 100]))
    kept.close()
    assert kept.texts.wait_done(WAIT_S)
    assert sum(map(len, kept.texts._secret.secrets)) < 210_000
    events = [*iter(lambda: kept.events.next(0.0), None)]
    assert [type(event) for event in events if not isinstance(event, LogLine)] == [Problem]
