"""Statistics files beside the engine: they come, go, and are damaged."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from llama_cpp_statistics import saved
from scripted_models import ByteVocabulary, ScriptedLoader
from waiting import until

from speclsp.completer import statistics_files
from speclsp.completer.learned_files import LearnedFiles
from speclsp.completer.statistics_files import FilesInUse, StatisticsFiles
from speclsp.drafting.drafter import sum_of
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import write
from speclsp.seam.events import Event, EventQueue, Problem
from speclsp.settings import Settings

WAIT_S = 60


@pytest.fixture
def events():
    return EventQueue()


@pytest.fixture
def make(events, closed):
    def make_source(fingerprint="bytes", **options):
        settings = Settings(**{"drafters": "ngram-cache", **options})  # type: ignore[arg-type]
        source = StatisticsFiles(settings, events, {}, LearnedFiles(events))
        source.use_tokenizer(ScriptedLoader(fingerprint=fingerprint).tokenizer(settings))
        return closed(source)

    return make_source


def heard(events: EventQueue) -> list[Event]:
    seen = []
    while (event := events.next(0.05)) is not None:
        seen.append(event)
    return seen


def problems(events: EventQueue) -> list[str]:
    return [event.message for event in heard(events) if isinstance(event, Problem)]


def next_problem(events: EventQueue) -> str:
    while not isinstance(event := events.next(WAIT_S), Problem):
        assert event is not None
    return event.message


def seen(in_use: FilesInUse, ngram: bytes) -> tuple[dict[int, int], dict[int, int]]:
    """What followed an n-gram in the dynamic and in the static statistics."""
    sources = in_use.statistics.dynamic, in_use.statistics.static
    dynamic, static = (dict(sum_of(of_role, tuple(ngram))) for of_role in sources)
    return dynamic, static


def text_file(path: Path, text: bytes, orders: range = range(1, 5)) -> Path:
    tokens = np.frombuffer(text, np.uint8).astype(np.int32)
    write(path, count_tokens([tokens], orders).by_order, "speclsp", ByteVocabulary())
    return path


def test_files_of_both_layouts_and_kinds_are_loaded(make, tmp_path):
    (tmp_path / "s.bin").write_bytes(saved({(97, 98): {99: 5}}))
    (tmp_path / "d.bin").write_bytes(saved({(97, 98): {100: 2}, (97,): {98: 1}}))
    text_file(tmp_path / "d.ngrams", b"abdabe")
    source = make(
        drafters=Settings().drafters,
        lookup_cache_static=[str(tmp_path / "s.bin")],
        lookup_cache_dynamic=[str(tmp_path / "d.bin"), str(tmp_path / "d.ngrams")],
    )
    expected = ({100: 3, 101: 1}, {99: 5})
    until(lambda: seen(source.current(), b"ab") == expected)


def test_the_first_request_waits_for_files_and_only_once(make, tmp_path, monkeypatch):
    (tmp_path / "d.bin").write_bytes(saved({(97, 98): {100: 2}}))
    may_read = threading.Event()
    opened = StatisticsFiles._open

    def held(*given):
        may_read.wait(WAIT_S)
        return opened(*given)

    monkeypatch.setattr(StatisticsFiles, "_open", held)
    source = make(lookup_cache_dynamic=[str(tmp_path / "d.bin")])
    threading.Timer(0.1, may_read.set).start()
    assert seen(source.current(WAIT_S), b"ab") == ({100: 2}, {})
    may_read.clear()
    (tmp_path / "e.bin").write_bytes(saved({(97, 98): {101: 3}}))
    source.apply_settings(
        Settings(drafters="ngram-cache", lookup_cache_dynamic=[str(tmp_path / "e.bin")])
    )
    # Not in time, and the next request does not wait: it takes what there is.
    for wait_s in (0.01, WAIT_S):
        assert seen(source.current(wait_s), b"ab") == ({100: 2}, {})
    may_read.set()
    until(lambda: seen(source.current(), b"ab") == ({101: 3}, {}))


def test_without_the_drafter_nothing_is_used(make, tmp_path):
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(lookup_cache_dynamic=[str(path)])
    until(lambda: source.current() != FilesInUse())
    source.apply_settings(
        Settings(drafters="draft", mode="first", lookup_cache_dynamic=[str(path)])
    )
    assert source.current() == FilesInUse()


def test_a_missing_file_is_reported_without_a_wait(make, events, tmp_path, monkeypatch):
    monkeypatch.setattr(statistics_files, "_SETTLED_S", WAIT_S)
    make(lookup_cache_static=[str(tmp_path / "none.bin")])
    problem = events.next(WAIT_S / 2)
    assert isinstance(problem, Problem)
    assert "none.bin" in problem.message


DAMAGED = {
    "missing": (None, "none.bin cannot be read: No such file"),
    "truncated": (saved({(1, 2): {3: 4}})[:-4], "byte 0: the file is truncated"),
    "foreign": (saved({(1, 2): {3000: 4}}), "byte 20: token 3000 is not in a vocabulary of 262"),
    "of other order": (saved({(1, 2, 3): {3: 4}}), "byte 0: an n-gram has 3 tokens, and 2 are"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_problem_and_the_others_count(make, events, tmp_path, name):
    data, reason = DAMAGED[name]
    bad, good = tmp_path / "none.bin", tmp_path / "good.bin"
    if data is not None:
        bad.write_bytes(data)
    good.write_bytes(saved({(97, 98): {99: 5}}))
    source = make(lookup_cache_static=[str(bad), str(good)])
    until(lambda: seen(source.current(), b"ab") == ({}, {99: 5}))
    source.apply_settings(Settings(drafters="ngram-cache", lookup_cache_static=[str(bad)]))
    until(lambda: seen(source.current(), b"ab") == ({}, {}))
    (message,) = problems(events)
    assert message.startswith(str(bad))
    assert reason in message
    # Once it is repaired it counts, without a restart.
    bad.write_bytes(saved({(97, 98): {100: 1}}))
    os.utime(bad, ns=(1, 1))
    until(lambda: seen(source.current(), b"ab") == ({}, {100: 1}))


def test_a_file_of_another_vocabulary(make, events, tmp_path):
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(fingerprint="others", lookup_cache_dynamic=[str(path)])
    assert "belongs to another vocabulary" in next_problem(events)
    assert seen(source.current(), b"ab") == ({}, {})


def test_damage_that_only_a_checksum_finds_is_a_problem(make, events, tmp_path):
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    source = make(lookup_cache_dynamic=[str(path)])
    assert "the checksum of" in next_problem(events)
    until(lambda: seen(source.current(), b"ab") == ({}, {}))


def test_a_file_that_is_cut_is_one_problem(make, events, tmp_path):
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    source = make(lookup_cache_dynamic=[str(path)])
    until(lambda: seen(source.current(), b"ab") == ({99: 20}, {}))
    os.truncate(path, 1000)
    until(lambda: seen(source.current(), b"ab") == ({}, {}))
    assert "the file is cut or damaged" in next_problem(events)


class WritingOn(threading.Event):
    """Nobody closes; while somebody waits, a file is written to its end."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__()
        self._path = path
        self._data = data

    def wait(self, timeout: float | None = None) -> bool:
        self._path.write_bytes(self._data)
        return False


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9])
def test_a_file_that_is_just_being_written_is_no_problem(make, events, tmp_path, share):
    """``cp`` cuts the old file and writes the new one bit by bit."""
    path = text_file(tmp_path / "d.ngrams", b"abc")
    new = text_file(tmp_path / "new.ngrams", b"abdabd" + bytes(range(256)) * 30).read_bytes()
    source = make(lookup_cache_dynamic=[str(path)])
    until(lambda: seen(source.current(), b"ab") == ({99: 1}, {}))
    source._closing = WritingOn(path, new)
    path.write_bytes(new[: int(share * len(new))])
    # A request that follows finds it changed again, and whole.
    until(lambda: seen(source.current(), b"ab") == ({99: 30, 100: 2}, {}))
    assert problems(events) == []


def test_a_file_that_is_replaced_while_it_is_checked_is_no_problem(make, events, tmp_path):
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    os.utime(path, ns=(1, 1))
    source = make()
    source._closing = WritingOn(path, whole)
    source.apply_settings(Settings(lookup_cache_dynamic=[str(path)]))
    until(lambda: seen(source.current(), b"ab") == ({99: 20}, {}))
    assert problems(events) == []


def test_a_text_file_is_reported_where_the_session_ends_at_once(make, events, tmp_path):
    text, other = tmp_path / "notes.txt", tmp_path / "more.txt"
    text.write_text("hello world, this is no statistics file\n")
    other.write_text("neither is this one, of course\n")
    make(lookup_cache_static=[str(text)], lookup_cache_dynamic=[str(other)]).close()
    assert [message.partition(",")[0] for message in problems(events)] == [str(text), str(other)]


def test_orders_that_static_statistics_do_not_read_are_told(make, events, tmp_path):
    path = text_file(tmp_path / "s.ngrams", b"abcabc", range(2, 4))
    source = make(lookup_cache_static=[str(path)])
    until(lambda: source.current().statistics.static)
    (line,) = [event.message for event in heard(events) if getattr(event, "level", "") == "warning"]
    assert line.startswith(f"{path}: static statistics are read for order 2 only, not for order 3:")
    assert "`-lcd`" in line
