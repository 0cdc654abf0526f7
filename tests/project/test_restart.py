"""What a project index keeps for the next session, and what it notices then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from indexed_project import IndexUnderTest, line, wait_until, write

from speclsp.drafting import corpus_builder
from speclsp.drafting.suffix_array import SortInterruptedError
from speclsp.errors import StoreError
from speclsp.project import file_indexer, kept_folders, project_index
from speclsp.request import LogLine, Problem
from speclsp.settings import Settings
from speclsp.storage.segment_store import SegmentStore
from speclsp.storage.token_store import TokenStore

MakeIndex = Callable[..., IndexUnderTest]
N_FILES = 40


class Counters:
    """How often something was done since the last look."""

    def __init__(self) -> None:
        self.n_built = 0
        self.n_read = 0

    def taken(self) -> tuple[int, int]:
        counts = (self.n_built, self.n_read)
        self.n_built = self.n_read = 0
        return counts


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    counters = Counters()
    real_build, real_read = corpus_builder.build_segment, file_indexer.read_source

    def build_segment(*arguments: Any) -> Any:
        counters.n_built += 1
        return real_build(*arguments)

    def read_source(*arguments: Any) -> Any:
        counters.n_read += 1
        return real_read(*arguments)

    monkeypatch.setattr(corpus_builder, "build_segment", build_segment)
    monkeypatch.setattr(file_indexer, "read_source", read_source)
    # The files of a test are always fresh.
    monkeypatch.setattr(kept_folders, "_FRESH_NS", 0)
    return counters


@pytest.fixture
def reports() -> list[StoreError]:
    return []


@pytest.fixture
def start(tmp_path: Path, make_index: MakeIndex, reports: list[StoreError]) -> Iterator[MakeIndex]:
    token_stores: list[TokenStore] = []

    def start(*roots: Path, **arguments: Any) -> IndexUnderTest:
        token_stores.append(TokenStore(tmp_path / "t.sqlite3"))
        store = SegmentStore(tmp_path / "index", report=reports.append)
        index = make_index(token_store=token_stores[-1], segment_store=store, **arguments)
        for root in roots or (index.root,):
            index.open(root)
        return index.built()

    yield start
    for store in token_stores:
        store.close()


def fill(root: Path) -> None:
    for number in range(N_FILES):
        write(root / f"d{number % 3}" / f"{number}.py", line(number) * 4)


def found(index: IndexUnderTest, *numbers: int) -> list[int]:
    return [n for n in numbers if index.follows(f"key {n} : ") == f"word{n}"]


def segment_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "index").glob("*/*/*.segment"))


def test_restart_builds_and_reads_nothing(
    project: Path, start: MakeIndex, counters: Counters
) -> None:
    fill(project)
    first = start()
    first.index.close()
    n_built, n_read = counters.taken()
    assert n_built >= 1
    assert n_read == N_FILES
    again = start()
    assert found(again, *range(N_FILES)) == list(range(N_FILES))
    assert again.index.stats() == first.index.stats()
    again.index.close()
    assert counters.taken() == (0, 0)
    assert again.tokenize.n_calls == 0


def test_kept_while_it_goes_on(project: Path, tmp_path: Path, start: MakeIndex) -> None:
    fill(project)
    start()
    wait_until(lambda: bool(segment_files(tmp_path)))


def test_changes_since_the_last_session_are_noticed(
    project: Path, start: MakeIndex, counters: Counters
) -> None:
    fill(project)
    start().index.close()
    counters.taken()
    (project / "d0" / "0.py").unlink()
    write(project / "d1" / "1.py", line(501))
    (project / "d2" / "2.py").rename(project / "moved.py")
    write(project / "d0" / "new.py", line(503))
    write(project / ".gitignore", "4.py\n")
    again = start()
    assert found(again, 0, 1, 2, 3, 4, 501, 503) == [2, 3, 501, 503]
    assert again.tokenize.n_calls == 3  # 1.py, new.py and .gitignore
    assert counters.n_read == 4  # and moved.py
    again.index.close()
    counters.taken()
    third = start()
    assert found(third, 0, 1, 2, 3, 4, 501, 503) == [2, 3, 501, 503]
    assert third.tokenize.n_calls == 0
    assert counters.n_read == 0


def test_same_size_and_time_of_writing_but_another_content(
    project: Path, start: MakeIndex, counters: Counters
) -> None:
    path = write(project / "a.py", line(1))
    os.utime(path, (1000, 1000))
    start().index.close()
    write(path, line(2))
    os.utime(path, (1000, 1000))
    assert found(start(), 1, 2) == [2]


def test_fresh_files_are_read_again(project: Path, start: MakeIndex, counters: Counters) -> None:
    kept_folders._FRESH_NS = 3_600_000_000_000
    fill(project)
    start().index.close()
    counters.taken()
    again = start()
    assert found(again, 7) == [7]
    assert counters.taken() == (0, N_FILES)


def test_nothing_stale_is_found_before_the_scan(
    project: Path, start: MakeIndex, make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / "a.py", line(1))
    start().index.close()
    write(project / "a.py", line(2))
    go_on = threading.Event()
    loaded = threading.Event()
    real_load = SegmentStore.load

    def load(self: SegmentStore, root: str, fingerprint: str) -> Any:
        result = real_load(self, root, fingerprint)
        assert len(result.segments) == 1
        loaded.set()
        assert go_on.wait(60)
        return result

    monkeypatch.setattr(SegmentStore, "load", load)
    built = IndexUnderTest.built
    monkeypatch.setattr(IndexUnderTest, "built", lambda self: self)
    index = start()
    assert loaded.wait(60)
    assert index.index.corpora() == ()
    go_on.set()
    built(index)
    assert found(index, 1, 2) == [2]


@pytest.mark.parametrize("which", ["segment", "contents"])
def test_damaged_files_are_set_aside_and_rebuilt(
    project: Path,
    tmp_path: Path,
    start: MakeIndex,
    counters: Counters,
    reports: list[StoreError],
    which: str,
) -> None:
    fill(project)
    start().index.close()
    counters.taken()
    (path,) = (tmp_path / "index").glob(f"*/*/*{which}")
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes(9))
    again = start()
    assert found(again, *range(N_FILES)) == list(range(N_FILES))
    assert again.tokenize.n_calls == 0  # the tokens are kept apart
    again.index.close()
    assert counters.taken()[0] >= 1
    (report,) = reports
    assert "set aside" in report.remedy
    assert path.with_name(path.name + ".damaged").exists()
    third = start()
    assert found(third, *range(N_FILES)) == list(range(N_FILES))
    assert counters.taken() == (0, 0)


def test_store_that_cannot_be_written_is_told_once(
    project: Path, tmp_path: Path, start: MakeIndex
) -> None:
    (tmp_path / "index").write_text("in the way")
    fill(project)
    index = start()
    index.index.close()
    messages = [event.message for event in index.of_type(LogLine)]
    assert sum("not kept between sessions" in message for message in messages) == 1
    assert found(index, 7) == [7]


def test_other_vocabulary_has_an_index_of_its_own(
    project: Path, start: MakeIndex, counters: Counters
) -> None:
    fill(project)
    start().index.close()
    counters.taken()
    start(fingerprint="other").index.close()
    assert counters.taken()[0] >= 1
    start().index.close()
    start(fingerprint="other").index.close()
    assert counters.taken() == (0, 0)


def test_folders_are_kept_by_themselves(
    project: Path, tmp_path: Path, start: MakeIndex, counters: Counters
) -> None:
    other = tmp_path / "other"
    fill(project)
    write(other / "b.py", line(700))
    both = start(project, other)
    assert found(both, 7, 700) == [7, 700]
    both.index.close()
    counters.taken()
    alone = start(other)
    assert found(alone, 7, 700) == [700]
    alone.index.close()
    assert counters.taken() == (0, 0)
    again = start(project, other)
    assert found(again, 7, 700) == [7, 700]
    again.index.close_folder(str(project))
    wait_until(lambda: found(again, 7, 700) == [700])
    again.open(project).built()
    assert found(again, 7, 700) == [7, 700]
    again.index.close()
    assert counters.taken() == (0, 0)


def test_interrupted_first_scan_leaves_what_was_kept(
    project: Path, start: MakeIndex, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project)
    start().index.close()
    counters.taken()
    with monkeypatch.context() as patched:
        patched.setattr(project_index, "scan_folder", lambda *_: False)
        patched.setattr(project_index.ProjectIndex, "_scan_again", lambda *_: None)
        start().index.close()
    again = start()
    assert found(again, *range(N_FILES)) == list(range(N_FILES))
    assert counters.taken() == (0, 0)


def test_index_that_is_full(project: Path, start: MakeIndex, counters: Counters) -> None:
    fill(project)
    full = start(max_index_tokens=100)
    assert full.index.stats().n_skipped > 20
    (message,) = [event.message for event in full.of_type(LogLine)]
    assert "max_index_tokens" in message
    full.index.apply_settings(Settings(max_index_tokens=1_000_000))
    wait_until(lambda: full.index.stats().n_files == N_FILES)
    full.index.close()
    # What was kept is more than may be opened now.
    small = start(max_index_tokens=100)
    assert small.index.stats().n_skipped > 20
    assert small.index.stats().n_tokens < 200


def test_merging_stops_when_closing(
    project: Path, start: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(project)
    under_test = start()
    index = under_test.index
    builder = index._indexer._builder(str(project))
    sorting = threading.Event()

    def build_segment(files: Any, interrupted: Callable[[], bool]) -> Any:
        sorting.set()
        wait_until(interrupted)
        raise SortInterruptedError

    monkeypatch.setattr(corpus_builder, "build_segment", build_segment)
    write(project / "late.py", line(900))
    index.changed(str(project / "late.py"))
    assert sorting.wait(60)
    index.close()
    assert not index._thread.is_alive()
    assert builder.n_pending_tokens > 0
    assert not under_test.of_type(Problem)


_SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from indexed_project import IndexUnderTest, WordTokenizer
from speclsp.storage.segment_store import SegmentStore
from speclsp.storage.token_store import TokenStore
from speclsp.storage import database
# On a busy machine one may hold the others up for long.
database._BUSY_S = 60.0
reports = []
for _ in range(int(sys.argv[3])):
    tokens = TokenStore(Path(sys.argv[2]) / "t.sqlite3", report=reports.append)
    store = SegmentStore(Path(sys.argv[2]) / "index", report=reports.append)
    index = IndexUnderTest(Path(sys.argv[1]), token_store=tokens, segment_store=store)
    index.open().built()
    for number in range(40):
        assert index.follows(f"key {number} : ") == f"word{number}", number
    index.index.close()
    tokens.close()
assert not reports, reports
"""


def test_two_servers_at_once(
    project: Path, tmp_path: Path, start: MakeIndex, counters: Counters, reports: list[StoreError]
) -> None:
    fill(project)
    support = str(Path(__file__).parents[1] / "support")
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(project), str(tmp_path), "5", support],
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for server in servers:
        _, errors = server.communicate(timeout=600)
        assert (server.returncode, errors) == (0, b"")
    index = start()
    assert found(index, *range(N_FILES)) == list(range(N_FILES))
    assert counters.n_built == 0
    assert reports == []
