"""A statistics file and its journal: every text counts once, whatever happens in between."""

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zlib import crc32

import numpy as np
import pytest
from llama_cpp_statistics import saved

from speclsp.drafting.drafter import sum_of
from speclsp.errors import StoreError
from speclsp.ngrams import learned_file
from speclsp.ngrams.files import open_statistics, write
from speclsp.ngrams.learned_file import LearnedFile


class Vocabulary:
    n_tokens = 1000

    def __init__(self, fingerprint: str = "f") -> None:
        self.fingerprint = fingerprint


class Engine:
    """One engine's view of a statistics file."""

    def __init__(self, path: Path, vocabulary: Vocabulary | None = None) -> None:
        self.problems: list[StoreError] = []
        self.file = LearnedFile(path, self.problems.append)
        self.vocabulary = vocabulary or Vocabulary()
        self.id = self.file.begin(self.vocabulary)

    def learn(self, *tokens: int, n_known: int = 0) -> bool:
        return self.file.append(np.array(tokens, np.int32), n_known, self.id)

    def count(self, *gram: int) -> dict[int, int]:
        """What follows an n-gram in the file and its journal."""
        opened = self.file.open(self.vocabulary)
        assert opened.learned is not None
        return dict(sum_of([opened.tables, opened.learned], gram))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.ngrams"


def journal_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.journal")


def in_file(path: Path, *gram: int) -> dict[int, int]:
    """What follows an n-gram in the file alone."""
    return dict(open_statistics(path, None).tables.followers(gram))


@pytest.fixture
def engine(path):
    return Engine(path)


def test_a_missing_file_is_created_and_takes_what_the_journal_has(path, engine):
    assert in_file(path, 1) == {}
    engine.learn(1, 2, 3)
    engine.learn(9, 1, 2, 4, n_known=3)
    assert in_file(path, 1, 2) == {}
    assert engine.count(1, 2) == {3: 1, 4: 1}
    assert engine.count(9) == {}  # it stood there before
    assert engine.file.fold() == 2
    assert not journal_of(path).exists()
    assert in_file(path, 1, 2) == engine.count(1, 2) == {3: 1, 4: 1}
    assert engine.file.fold() == 0
    assert Engine(path).id == engine.id
    assert engine.problems == []


def test_only_the_tokens_before_a_text_that_matter_are_kept(path, engine):
    engine.learn(*range(100), n_known=98)
    assert json.loads(journal_of(path).read_text()[10:])["tokens"] == [94, 95, 96, 97, 98, 99]
    assert engine.count(94, 95, 96, 97) == {98: 1}
    assert engine.count(93, 94, 95, 96) == {}


def test_files_that_are_open_count_at_once_and_never_twice(engine):
    before = engine.file.open(engine.vocabulary)
    engine.learn(1, 2)
    assert before.learned is not None
    assert dict(before.learned.followers((1,))) == {2: 1}
    engine.file.fold()
    after = engine.file.open(engine.vocabulary)
    engine.learn(1, 2)
    for opened in (before, after):
        assert opened.learned is not None
        assert dict(sum_of([opened.tables, opened.learned], (1,))) == {2: 2}


def test_journal_is_private(path):
    path.parent.chmod(0o755)
    Engine(path).learn(1, 2)
    assert stat.S_IMODE(journal_of(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def learn_in_process(path: Path, number: int, n_texts: int) -> None:
    engine = Engine(path)
    for _ in range(n_texts):
        engine.learn(1, 2)
        engine.learn(1, 10 + number)
        if number % 2:
            engine.file.fold()
    assert not engine.problems


def test_processes_that_share_a_file_lose_and_double_nothing(path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=learn_in_process, args=(path, n, 20)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    engine = Engine(path)
    expected = {2: 80, 10: 20, 11: 20, 12: 20, 13: 20}
    assert engine.count(1) == expected
    engine.file.fold()
    assert in_file(path, 1) == expected


def test_threads_that_create_a_file_together_create_one(path):
    with ThreadPoolExecutor(8) as threads:
        assert len({engine.id for engine in threads.map(lambda _: Engine(path), range(8))}) == 1


def test_what_is_learned_while_counts_are_added_up_waits(path, monkeypatch):
    engine, other = Engine(path), Engine(path)
    engine.learn(1, 2)
    merge = learned_file.merge
    with ThreadPoolExecutor(1) as thread:

        def slowly(parts):
            learnt.append(thread.submit(other.learn, 1, 3))
            assert not wait(learnt, 0.2).done
            return merge(parts)

        learnt: list[Any] = []
        monkeypatch.setattr(learned_file, "merge", slowly)
        assert engine.file.fold() == 1
        assert learnt[0].result()
    assert in_file(path, 1) == {2: 1}
    assert engine.count(1) == {2: 1, 3: 1}
    monkeypatch.undo()
    assert other.file.fold() == 1
    assert in_file(path, 1) == {2: 1, 3: 1}
    assert {each.name for each in path.parent.iterdir()} == {path.name, f".{path.name}.lock"}


class _Ended(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("where", ["before the file is replaced", "after it"])
def test_a_process_that_ends_while_it_adds_counts_counts_once(path, monkeypatch, where, engine):
    engine.learn(1, 2)
    unlink, end = Path.unlink, Mock(side_effect=_Ended)
    with monkeypatch.context() as patched:
        if where == "after it":
            patched.setattr(
                Path, "unlink", lambda p, **o: end() if p == journal_of(path) else unlink(p, **o)
            )
        else:
            patched.setattr(Path, "replace", end)
        with pytest.raises(_Ended):
            engine.file.fold()
    assert in_file(path, 1) == ({2: 1} if where == "after it" else {})
    later = Engine(path)
    assert later.count(1) == {2: 1}
    later.learn(1, 2)
    assert later.count(1) == {2: 2}
    later.file.fold()
    assert in_file(path, 1) == later.count(1) == {2: 2}
    assert not journal_of(path).exists()
    assert later.problems == []


def test_a_cut_line_leaves_the_others(path, engine):
    engine.learn(1, 2)
    engine.learn(1, 3)
    whole = journal_of(path).read_bytes()
    journal_of(path).write_bytes(whole[:-9])
    later = Engine(path)
    assert later.count(1) == {2: 1}
    later.learn(1, 4)
    assert later.count(1) == {2: 1, 4: 1}
    later.file.fold()
    assert in_file(path, 1) == {2: 1, 4: 1}
    assert {error.message for error in later.problems} == {
        f"{journal_of(path)}: 1 of its lines cannot be read and do not count."
    }
    assert all(error.remedy for error in later.problems)


OTHER = b'{"type":"learned","vocabulary":"f","tokens":[1,-2],"n_known":0}'

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a changed byte": lambda data: data.replace(b"[1,2]", b"[1,9]"),
    "a right checksum over another record": lambda _: b"%08x %s\n" % (crc32(OTHER), OTHER),
    "no text at all": lambda _: bytes(range(1, 256)),
    "NUL bytes": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_is_reported_and_the_rest_counts(path, damage, engine):
    engine.learn(1, 2)
    line = DAMAGES[damage](journal_of(path).read_bytes())
    journal_of(path).write_bytes(line)
    later = Engine(path)
    later.learn(1, 3)
    assert later.count(1) == {3: 1}
    assert "cannot be read" in later.problems[0].message
    later.file.fold()
    assert in_file(path, 1) == {3: 1}
    assert not journal_of(path).exists()


def test_a_folder_in_place_of_the_journal_is_reported_and_the_file_counts(path, engine):
    engine.learn(1, 2)
    engine.file.fold()
    journal_of(path).mkdir()
    (journal_of(path) / "x").write_text("")
    assert engine.count(1) == {2: 1}
    (problem,) = engine.problems
    assert str(journal_of(path)) in problem.message
    with pytest.raises(StoreError, match="cannot be written"):
        engine.learn(1, 3)


@pytest.mark.slow
def test_a_journal_is_never_larger_than_a_megabyte(path, engine):
    text = range(999)
    engine.learn(*text)
    n_bytes = journal_of(path).stat().st_size
    n_texts = (2**20 - 1024) // n_bytes
    for _ in range(n_texts - 1):
        engine.learn(*text)
    with pytest.raises(StoreError, match="is full") as refused:
        engine.learn(*text)
    assert refused.value.remedy
    assert 2**20 - 10_000 < journal_of(path).stat().st_size <= 2**20
    assert n_texts > 100
    assert engine.file.fold() == n_texts
    engine.learn(1, 2)
    assert engine.count(1) == {2: n_texts + 1}


def test_another_thread_that_finds_the_new_file_makes_it_no_removed_one(path, monkeypatch):
    problems: list[StoreError] = []
    file = LearnedFile(path, problems.append)

    def write_and_begin(*arguments, **options):
        write(*arguments, **options)
        file.begin(Vocabulary())

    monkeypatch.setattr(learned_file.files, "write", write_and_begin)
    file.begin(Vocabulary())
    assert problems == []


def test_a_file_that_is_removed_takes_its_journal_along_and_is_reported(path):
    engine, other = Engine(path), Engine(path)
    engine.learn(1, 2)
    path.unlink()
    assert other.file.begin(other.vocabulary) != engine.id
    (problem,) = other.problems
    assert "was removed, and its counts with it" in problem.message
    assert problem.remedy
    assert not engine.learn(1, 3)  # its caller has a store count it
    assert other.count(1) == {}
    assert Engine(path).problems == engine.problems == []


def test_texts_of_other_vocabularies_are_left_out(path):
    path.write_bytes(saved({(1, 2): {3: 4}}))
    Engine(path, Vocabulary("g")).learn(1, 2)
    engine = Engine(path)
    engine.learn(1, 3)
    assert engine.count(1) == {3: 1}
    engine.file.fold()
    assert in_file(path, 1) == {3: 1}


def test_a_file_of_another_vocabulary_takes_nothing(path):
    Engine(path)
    with pytest.raises(StoreError, match="another vocabulary"):
        Engine(path, Vocabulary("g"))


def test_a_file_of_llama_cpp_takes_counts_and_keeps_its_layout(path):
    path.write_bytes(saved({(1, 2): {3: 4}}))
    engine = Engine(path)
    assert not engine.file.is_own()
    engine.learn(1, 2, 3)
    assert engine.count(1, 2) == {3: 5}
    engine.file.fold()
    assert open_statistics(path, None).layout == "llama.cpp"
    assert in_file(path, 1, 2) == {3: 5}
    assert Engine(path).id == engine.id


def test_whose_a_file_is(tmp_path):
    missing, built, foreign = (tmp_path / name for name in ("missing", "built", "foreign"))
    write(built, {}, "speclsp", Vocabulary())
    foreign.write_bytes(saved({(1, 2): {3: 4}}))
    own = {each: LearnedFile(each, print).is_own() for each in (missing, built, foreign)}
    assert own == {missing: True, built: False, foreign: False}
    Engine(missing)
    assert LearnedFile(missing, print).is_own()


def test_a_damaged_file_takes_nothing_and_the_journal_stays(path, engine):
    engine.learn(1, 2)
    kept = journal_of(path).read_bytes()
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StoreError, match="cut or damaged"):
        engine.file.fold()
    with pytest.raises(StoreError, match="cut or damaged"):
        engine.file.open(engine.vocabulary)
    assert journal_of(path).read_bytes() == kept


def test_no_folder_is_created(tmp_path):
    with pytest.raises(StoreError, match="there is no folder") as refused:
        Engine(tmp_path / "none" / "mine.ngrams")
    assert refused.value.remedy == "Create the folder, or correct the path."
    assert list(tmp_path.iterdir()) == []


def test_when_a_file_is_written(path, engine):
    engine.learn(*range(900))
    changed_s = path.stat().st_mtime
    assert not engine.file.is_due(changed_s + 59, 60)
    assert engine.file.is_due(changed_s + 61, 60)
    assert engine.file.is_due(changed_s - 10, 60)  # the clock was set back
    engine.file.fold()
    engine.learn(1, 2)
    assert path.stat().st_size > 16 * journal_of(path).stat().st_size
    assert not engine.file.is_due(path.stat().st_mtime + 61, 60)
    engine.learn(*([123456789] * 60_000))
    assert engine.file.is_due(path.stat().st_mtime + 1, 60)  # the next texts would not fit
    path.unlink()
    assert not engine.file.is_due(changed_s + 61, 60)


def test_a_write_that_fails_leaves_the_journal_as_it_was(path, monkeypatch, engine):
    engine.learn(1, 2)
    kept = journal_of(path).read_bytes()
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=full))
        with pytest.raises(StoreError, match="No space left") as refused:
            engine.learn(1, 3)
        assert refused.value.remedy
        with pytest.raises(StoreError, match="No space left"):
            engine.file.fold()
    assert journal_of(path).read_bytes() == kept
    engine.learn(1, 4)
    assert engine.count(1) == {2: 1, 4: 1}
