"""What a project index keeps for the next session, and what it notices then."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from indexed_project import IndexUnderTest, line, write

from speclsp.project import corpus, indexed_files
from speclsp.seam.events import LogLine, Problem
from speclsp.storage.token_store import TokenStore

MakeIndex = Callable[..., IndexUnderTest]
N_FILES = 40


@pytest.fixture
def reports():
    return []


@pytest.fixture
def start(tmp_path, make_index, reports, closed):
    def start(**arguments):
        store = closed(TokenStore(tmp_path / "t.sqlite3", report=reports.append))
        return make_index(token_store=store, **arguments).open().built()

    return start


def fill(root: Path) -> None:
    for number in range(N_FILES):
        write(root / f"d{number % 3}" / f"{number}.py", line(number) * 4)


def found(index: IndexUnderTest, *numbers: int) -> list[int]:
    return [n for n in numbers if index.follows(f"key {n} : ") == f"word{n}"]


def test_restart_tokenises_nothing(project, tmp_path, start):
    fill(project)
    first = start()
    first.index.close()
    assert first.tokenize.n_calls == N_FILES
    again = start()
    assert found(again, *range(N_FILES)) == list(range(N_FILES))
    assert again.index.stats() == first.index.stats()
    assert again.tokenize.n_calls == 0
    kept = (tmp_path / "t.sqlite3").read_bytes()
    assert not [word for word in (b"key 17", b"17.py") if word in kept]


def test_changes_since_the_last_session_are_noticed(project, start):
    fill(project)
    start().index.close()
    (project / "d0" / "0.py").unlink()
    write(project / "d1" / "1.py", line(501))
    (project / "d2" / "2.py").rename(project / "moved.py")
    write(project / "d0" / "new.py", line(503))
    write(project / ".gitignore", "4.py\n")
    again = start()
    assert found(again, 0, 1, 2, 3, 4, 501, 503) == [2, 3, 501, 503]
    assert again.tokenize.n_calls == 3  # 1.py, new.py and .gitignore
    again.index.close()
    third = start()
    assert found(third, 0, 1, 2, 3, 4, 501, 503) == [2, 3, 501, 503]
    assert third.tokenize.n_calls == 0


def test_same_size_and_time_of_writing_but_another_content(project, start):
    path = write(project / "a.py", line(1))
    os.utime(path, (1000, 1000))
    start().index.close()
    write(path, line(2))
    os.utime(path, (1000, 1000))
    assert found(start(), 1, 2) == [2]


def test_damaged_store_is_set_aside_and_filled_again(project, tmp_path, make_index, start, reports):
    fill(project)
    store = TokenStore(tmp_path / "t.sqlite3")
    make_index(token_store=store).open().built().index.close()
    store.close()
    (tmp_path / "t.sqlite3").write_bytes(b"nonsense" * 1000)
    again = start()
    assert found(again, *range(N_FILES)) == list(range(N_FILES))
    again.index.close()
    (report,) = reports
    assert "set aside" in report.remedy
    assert (tmp_path / "t.sqlite3.damaged").exists()
    third = start()
    assert found(third, *range(N_FILES)) == list(range(N_FILES))
    assert third.tokenize.n_calls == 0


def test_each_vocabulary_has_tokens_of_its_own(project, start):
    fill(project)
    start().index.close()
    other = start(fingerprint="other")
    other.index.close()
    assert other.tokenize.n_calls == N_FILES
    for fingerprint in ("words", "other"):
        again = start(fingerprint=fingerprint)
        again.index.close()
        assert again.tokenize.n_calls == 0


def test_folders_keep_tokens_by_themselves(project, tmp_path, start):
    other = tmp_path / "other"
    fill(project)
    write(other / "b.py", line(700))
    for root, has in ((project, [7]), (other, [700]), (project, [7])):
        index = start(root=root)
        assert found(index, 7, 700) == has
        index.index.close()
    assert index.tokenize.n_calls == 0


def test_index_that_is_full(project, start, monkeypatch):
    fill(project)
    with monkeypatch.context() as patched:
        patched.setattr(indexed_files, "MAX_TOKENS", 100)
        full = start()
    assert full.index.stats().n_skipped > 20
    (message,) = [event.message for event in full.of_type(LogLine)]
    assert "`exclude`" in message
    assert start().index.stats().n_files == N_FILES


def test_sorting_stops_when_closing(project, start, monkeypatch):
    fill(project)
    under_test = start()
    index = under_test.index
    sorting = threading.Event()

    def sort(files, pause):
        sorting.set()
        while True:
            pause()

    monkeypatch.setattr(corpus, "TokenIndex", sort)
    write(project / "late.py", line(900))
    index.changed(str(project / "late.py"))
    assert sorting.wait(60)
    index.close()
    assert not index._thread.is_alive()
    assert not under_test.of_type(Problem)


_SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from indexed_project import IndexUnderTest, WordTokenizer
from speclsp.storage.token_store import TokenStore
from speclsp.storage import database
# On a busy machine one may hold the others up for long.
database._BUSY_S = 60.0
reports = []
for _ in range(int(sys.argv[3])):
    tokens = TokenStore(Path(sys.argv[2]) / "t.sqlite3", report=reports.append)
    index = IndexUnderTest(Path(sys.argv[1]), token_store=tokens)
    index.open().built()
    for number in range(40):
        assert index.follows(f"key {number} : ") == f"word{number}", number
    index.index.close()
    tokens.close()
assert not reports, reports
"""


def test_two_servers_at_once(project, tmp_path, start, reports):
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
    assert index.tokenize.n_calls == 0
    assert reports == []
    (use,) = TokenStore(tmp_path / "t.sqlite3").uses()
    assert use.n_items == N_FILES
