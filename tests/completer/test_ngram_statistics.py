"""N-gram statistics beside the engine: files that come, go and are damaged; what is learned."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from llama_cpp_statistics import saved
from scripted_models import ByteVocabulary, ScriptedLoader
from typed_requests import request_between, typed_completer

from speclsp.cancellation import CancellationToken
from speclsp.completer.events import EventQueue
from speclsp.completer.ngram_statistics import StatisticsFiles, StatisticsSource
from speclsp.drafting.protocol import Statistics, sum_of
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import write
from speclsp.request import Event, LogLine, Problem
from speclsp.settings import Settings
from speclsp.storage.learned_store import LearnedStore

WAIT_S = 60


@pytest.fixture(autouse=True)
def private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def events() -> EventQueue:
    return EventQueue()


Make = Callable[..., StatisticsSource]


@pytest.fixture
def make(events: EventQueue) -> Iterator[Make]:
    made: list[StatisticsSource] = []

    def make_source(fingerprint: str = "bytes", **options: object) -> StatisticsSource:
        settings = Settings(**{"drafters": "ngram-cache", **options})  # type: ignore[arg-type]
        source = StatisticsSource(settings, events)
        source.take_tokenizer(ScriptedLoader(fingerprint=fingerprint).tokenizer(settings))
        made.append(source)
        return source

    yield make_source
    for source in made:
        source.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def heard(events: EventQueue) -> list[Event]:
    seen = []
    while (event := events.next(0.05)) is not None:
        seen.append(event)
    return seen


def problems(events: EventQueue) -> list[str]:
    return [event.message for event in heard(events) if isinstance(event, Problem)]


def seen(statistics: Statistics, ngram: bytes) -> tuple[dict[int, int], dict[int, int]]:
    """What followed an n-gram in the dynamic and in the static statistics."""
    found = [sum_of(sources, tuple(ngram)) for sources in (statistics.dynamic, statistics.static)]
    dynamic, static = (dict(zip(f.tokens.tolist(), f.counts.tolist(), strict=True)) for f in found)
    return dynamic, static


def text_file(path: Path, text: bytes, orders: range = range(1, 5)) -> Path:
    tokens = np.frombuffer(text, np.uint8).astype(np.int32)
    write(path, count_tokens([tokens], orders), "speclsp", ByteVocabulary())
    return path


def test_files_of_both_layouts_and_kinds_are_loaded(make: Make, tmp_path: Path) -> None:
    (tmp_path / "s.bin").write_bytes(saved({(97, 98): {99: 5}}))
    (tmp_path / "d.bin").write_bytes(saved({(97, 98): {100: 2}, (97,): {98: 1}}))
    text_file(tmp_path / "d.ngrams", b"abdabe")
    source = make(
        lookup_cache_static=[str(tmp_path / "s.bin")],
        lookup_cache_dynamic=[str(tmp_path / "d.bin"), str(tmp_path / "d.ngrams")],
    )
    expected = ({100: 3, 101: 1}, {99: 5})
    until(lambda: seen(source.current("/r"), b"ab") == expected)


def test_without_the_drafter_nothing_is_loaded(
    make: Make, events: EventQueue, tmp_path: Path
) -> None:
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(lookup_cache_dynamic=[str(path)])
    source.apply_settings(
        Settings(drafters="draft", mode="first", lookup_cache_dynamic=[str(path)])
    )
    until(lambda: any(isinstance(e, LogLine) and "not used" in e.message for e in heard(events)))
    assert source.current("/r") == Statistics()


def test_where_drafts_are_merged_they_need_no_drafter_of_their_name(
    make: Make, tmp_path: Path
) -> None:
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(drafters="suffix", lookup_cache_dynamic=[str(path)])
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))


DAMAGED = {
    "missing": (None, "none.bin cannot be read: No such file"),
    "truncated": (saved({(1, 2): {3: 4}})[:-4], "byte 0: the file is truncated"),
    "foreign": (saved({(1, 2): {3000: 4}}), "byte 20: token 3000 is not in a vocabulary of 262"),
    "negative": (saved({(1, 2): {3: -4}}), "byte 24: a count is -4"),
    "of other order": (saved({(1, 2, 3): {3: 4}}), "byte 0: an n-gram has 3 tokens, and 2 are"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_problem_and_the_others_count(
    make: Make, events: EventQueue, tmp_path: Path, name: str
) -> None:
    data, reason = DAMAGED[name]
    bad, good = tmp_path / "none.bin", tmp_path / "good.bin"
    if data is not None:
        bad.write_bytes(data)
    good.write_bytes(saved({(97, 98): {99: 5}}))
    source = make(lookup_cache_static=[str(bad), str(good)])
    until(lambda: seen(source.current("/r"), b"ab") == ({}, {99: 5}))
    source.apply_settings(Settings(drafters="ngram-cache", lookup_cache_static=[str(bad)]))
    until(lambda: seen(source.current("/r"), b"ab") == ({}, {}))
    (message,) = problems(events)
    assert message.startswith(str(bad))
    assert reason in message
    # Once it is repaired it counts, without a restart.
    bad.write_bytes(saved({(97, 98): {100: 1}}))
    os.utime(bad, ns=(1, 1))
    until(lambda: seen(source.current("/r"), b"ab") == ({}, {100: 1}))


def test_a_file_of_another_vocabulary(make: Make, events: EventQueue, tmp_path: Path) -> None:
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(fingerprint="others", lookup_cache_dynamic=[str(path)])
    found: list[str] = []
    until(lambda: found.extend(problems(events)) or found)  # type: ignore[func-returns-value]
    assert "belongs to another vocabulary" in found[0]
    assert seen(source.current("/r"), b"ab") == ({}, {})


def test_damage_that_only_a_checksum_finds_is_a_problem(
    make: Make, events: EventQueue, tmp_path: Path
) -> None:
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)
    source = make(lookup_cache_dynamic=[str(path)])
    found: list[str] = []
    until(lambda: found.extend(problems(events)) or found)  # type: ignore[func-returns-value]
    assert "the checksum of" in found[0]
    until(lambda: seen(source.current("/r"), b"ab") == ({}, {}))


def test_a_file_that_is_cut_is_one_problem(make: Make, events: EventQueue, tmp_path: Path) -> None:
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    source = make(lookup_cache_dynamic=[str(path)])
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 20}, {}))
    os.truncate(path, 1000)
    assert seen(source.current("/r"), b"ab") == ({}, {})
    found: list[str] = []
    until(lambda: found.extend(problems(events)) or found)  # type: ignore[func-returns-value]
    assert "the file has 1,000 bytes instead of" in found[0]


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
def test_a_file_that_is_just_being_written_is_no_problem(
    events: EventQueue, tmp_path: Path, share: float
) -> None:
    """``cp`` cuts the old file and writes the new one bit by bit."""
    path = text_file(tmp_path / "d.ngrams", b"abc")
    new = text_file(tmp_path / "new.ngrams", b"abdabd" + bytes(range(256)) * 30).read_bytes()
    files = StatisticsFiles(events, WritingOn(path, new))
    settings = Settings(lookup_cache_dynamic=[str(path)])
    assert seen(files.load(settings, ByteVocabulary()), b"ab") == ({99: 1}, {})
    path.write_bytes(new[: int(share * len(new))])
    assert files.changed()
    assert seen(files.load(settings, ByteVocabulary()), b"ab") == ({}, {})
    # The request that follows finds it changed again, and whole.
    assert files.changed()
    assert seen(files.load(settings, ByteVocabulary()), b"ab") == ({99: 30, 100: 2}, {})
    assert not files.changed()
    assert problems(events) == []


def test_a_file_that_is_replaced_while_it_is_checked_is_no_problem(
    events: EventQueue, tmp_path: Path
) -> None:
    path = text_file(tmp_path / "d.ngrams", bytes(range(256)) * 20)
    whole = path.read_bytes()
    files = StatisticsFiles(events, WritingOn(path, whole))
    settings = Settings(lookup_cache_dynamic=[str(path)])
    path.write_bytes(bytes(len(whole)))
    os.utime(path, ns=(1, 1))
    assert seen(files.load(settings, ByteVocabulary()), b"ab") == ({}, {})
    assert files.changed()
    assert seen(files.load(settings, ByteVocabulary()), b"ab") == ({99: 20}, {})
    assert problems(events) == []


def test_a_replaced_file_is_loaded_anew(make: Make, tmp_path: Path) -> None:
    path = text_file(tmp_path / "d.ngrams", b"abc")
    source = make(lookup_cache_dynamic=[str(path)])
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))
    text_file(path, b"abdabd")
    until(lambda: seen(source.current("/r"), b"ab") == ({100: 2}, {}))


def test_what_is_accepted_counts_at_once_and_in_the_next_session(make: Make) -> None:
    source = make()
    source.learn("/r", "x = a", "bcab")
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))
    # What stood before the accepted text is no follower.
    assert seen(source.current("/r"), b"x ") == ({}, {})
    assert seen(source.current("/r"), b"= a") == ({98: 1}, {})
    assert seen(source.current("/other"), b"ab") == ({}, {})
    source.close()
    again = make()
    until(lambda: seen(again.current("/r"), b"ab") == ({99: 1}, {}))
    again.learn("/r", "", "abd")
    until(lambda: seen(again.current("/r"), b"ab") == ({99: 1, 100: 1}, {}))


def test_another_vocabulary_counts_apart(make: Make) -> None:
    source = make()
    source.learn("/r", "", "abc")
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))
    source.take_tokenizer(ScriptedLoader(fingerprint="others").tokenizer(Settings()))
    until(lambda: seen(source.current("/r"), b"ab") == ({}, {}))
    source.learn("/r", "", "abd")
    until(lambda: seen(source.current("/r"), b"ab") == ({100: 1}, {}))


def test_without_persist_nothing_is_kept(make: Make, tmp_path: Path) -> None:
    source = make(persist=False)
    source.learn("/r", "", "abc")
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))
    source.close()
    assert not (tmp_path / "state").exists()


def test_a_disk_that_cannot_be_written_is_a_warning(
    make: Make, events: EventQueue, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("no folder")
    source = make()
    source.learn("/r", "", "abc")
    until(lambda: seen(source.current("/r"), b"ab") == ({99: 1}, {}))
    warnings = [e.message for e in heard(events) if isinstance(e, LogLine)]
    assert [message for message in warnings if "are not kept" in message] == warnings[:1]


def test_the_completer_learns_what_is_accepted_and_drafts_from_it() -> None:
    """The model says what the user accepted before; that is drafted and found right."""
    text = "return quite_a_long_name(1)"
    # The same place is asked about again and again, and the model is to answer each time.
    settings = Settings(drafters="ngram-cache", mode="first", suggestion_memory=False)
    completer = typed_completer(settings, loader=ScriptedLoader(text))
    completer.start()

    def ask(prefix: str) -> tuple[str, int, str]:
        request = request_between(
            uri="file:///p/a.py",
            path="a.py",
            repo_name="p",
            prefix=prefix,
            suffix="",
            language_id="python",
            wait_for_model=True,
        )
        result = completer.complete(request, CancellationToken()).result(WAIT_S)
        return result.text, result.stats.n_accepted, result.completion_id

    try:
        for _ in range(3):
            said, _, completion_id = ask("def f():\n    ")
            assert said == text
            for _ in range(2):  # the second time is the same acceptance
                completer.accepted(completion_id)
        until(lambda: LearnedStore.open().uses())
        # Another text before the cursor, so that only what was learned can match.
        until(lambda: ask("class A:\n    ")[1] > len(text) // 2)
        assert ask("class A:\n    ")[0] == text
    finally:
        completer.close()
