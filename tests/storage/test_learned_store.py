from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from speclsp.errors import StoreError
from speclsp.storage.learned_store import HALF_LIFE_DAYS, LearnedStore, Sighting
from speclsp.storage.locations import workspace_id

MakeStore = Callable[..., LearnedStore]
DAY_S = 86_400


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    made: list[LearnedStore] = []

    def make(**arguments: Any) -> LearnedStore:
        made.append(LearnedStore(tmp_path / "s" / "l.sqlite3", **arguments))
        return made[-1]

    yield make
    for store in made:
        store.close()


def test_counts_are_added_up(make_store: MakeStore) -> None:
    store = make_store()
    store.add("/a", "f", [Sighting((1, 2), 3, 1), Sighting((1,), 3, 2)])
    store.add("/a", "f", [Sighting((1, 2), 3, 4), Sighting((1, 2), 5, 1)])
    expected = [((1,), 3, 2), ((1, 2), 3, 5), ((1, 2), 5, 1)]
    assert sorted(store.load("/a", "f")) == expected
    assert sorted(make_store().load("/a", "f")) == expected


def test_workspaces_and_vocabularies_are_apart(make_store: MakeStore) -> None:
    store = make_store()
    store.add("/a", "f", [Sighting((1,), 2, 1)])
    store.add("/a", "g", [Sighting((1,), 2, 5)])
    store.add("/b", "f", [Sighting((1,), 2, 7)])
    assert store.load("/a", "f") == [((1,), 2, 1)]
    assert store.load("/a", "g") == [((1,), 2, 5)]
    assert store.load("/b", "f") == [((1,), 2, 7)]
    assert store.load("/b", "g") == []


def test_counts_are_halved_in_time(make_store: MakeStore) -> None:
    now = [100 * HALF_LIFE_DAYS * DAY_S]
    store = make_store(clock=lambda: float(now[0]))
    store.add("/a", "f", [Sighting((1,), 2, 9), Sighting((1,), 3, 1)])
    now[0] += (HALF_LIFE_DAYS - 1) * DAY_S
    assert sorted(store.load("/a", "f")) == [((1,), 2, 9), ((1,), 3, 1)]
    now[0] += DAY_S
    assert store.load("/a", "f") == [((1,), 2, 4)]
    store.add("/a", "f", [Sighting((1,), 2, 1)])
    assert store.load("/a", "f") == [((1,), 2, 5)]
    now[0] += 2 * HALF_LIFE_DAYS * DAY_S
    assert store.load("/a", "f") == [((1,), 2, 1)]
    now[0] = 0  # the clock was set back: nothing grows
    assert sorted(store.load("/a", "f")) == [((1,), 2, 5), ((1,), 3, 1)]


def test_what_is_least_counted_and_oldest_makes_room(make_store: MakeStore) -> None:
    now = [100 * DAY_S]
    store = make_store(max_ngrams=10, clock=lambda: float(now[0]))
    store.add("/b", "f", [Sighting((0,), 0, 1)])
    store.add("/a", "f", [Sighting((1,), token, 2) for token in range(5)])
    store.add("/a", "f", [Sighting((2,), token, 1) for token in range(3)])
    now[0] += DAY_S
    store.add("/a", "f", [Sighting((3,), token, 1) for token in range(4)])
    kept = [(ngram[0], token) for ngram, token, _ in store.load("/a", "f")]
    assert sorted(kept) == [*((1, t) for t in range(5)), *((3, t) for t in range(4))]
    assert len(store.load("/b", "f")) == 1


def test_the_whole_store_is_bounded(make_store: MakeStore) -> None:
    store = make_store(max_ngrams_in_all=10)
    for root in ("/a", "/b", "/c"):
        store.add(root, "f", [Sighting((1,), token, 1) for token in range(4)])
    assert [len(store.load(root, "f")) for root in ("/a", "/b", "/c")] == [1, 4, 4]


def test_file_is_private(make_store: MakeStore, tmp_path: Path) -> None:
    make_store().add("/a", "f", [Sighting((1,), 2, 1)])
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "s").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700


def test_uses_and_forget(make_store: MakeStore) -> None:
    store = make_store()
    store.add("/a", "f", [Sighting((1,), 2, 1)])
    store.add("/b", "f", [Sighting((1,), 2, 1), Sighting((1, 2), 3, 1)])
    assert [(use.workspace, use.n_items) for use in store.uses()] == [
        (workspace_id("/b"), 2),
        (workspace_id("/a"), 1),
    ]
    assert store.forget(workspace_id("/b")) == 2
    assert store.load("/b", "f") == []
    assert store.forget_all() == 1
    assert store.uses() == []


ADD = """
import os, signal, sys
from pathlib import Path
from speclsp.storage import database
from speclsp.storage.learned_store import LearnedStore, Sighting
# On a busy machine one may hold the others up for long.
database._BUSY_S = 60.0
store = LearnedStore(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    store.add("/a", "f", [Sighting((1, token), 2, 1) for token in range(20)])
    print("added", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_added_survives_a_kill(make_store: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "s" / "l.sqlite3"
    result = subprocess.run([sys.executable, "-c", ADD, str(path), "3"], check=False)
    assert result.returncode == -signal.SIGKILL
    assert make_store().load("/a", "f") == [((1, token), 2, 3) for token in range(20)]


def test_a_kill_in_the_midst_loses_nothing_that_was_committed(
    make_store: MakeStore, tmp_path: Path
) -> None:
    path = tmp_path / "s" / "l.sqlite3"
    process = subprocess.Popen(
        [sys.executable, "-c", ADD, str(path), "1000000"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    n_told = sum(process.stdout.readline() == b"added\n" for _ in range(5))
    process.kill()
    n_told += process.stdout.read().count(b"added\n")
    process.stdout.close()
    process.wait()
    counts = {seen.n_seen for seen in make_store().load("/a", "f")}
    # All of a transaction or nothing; the last one may have been committed and not told.
    assert counts in ({n_told}, {n_told + 1})


def test_several_processes_add_at_once(make_store: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "s" / "l.sqlite3"
    processes = [
        subprocess.Popen([sys.executable, "-c", ADD, str(path), "25"], stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert {process.wait() for process in processes} == {-signal.SIGKILL}
    assert make_store().load("/a", "f") == [((1, token), 2, 75) for token in range(20)]


def test_a_damaged_file_is_set_aside(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    store.add("/a", "f", [Sighting((1,), 2, 1)])
    store.close()
    (tmp_path / "s" / "l.sqlite3").write_bytes(b"nonsense" * 1000)
    heard: list[StoreError] = []
    assert make_store(report=heard.append).load("/a", "f") == []
    assert "set aside" in heard[0].remedy


def test_user_store_lies_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    LearnedStore.open().close()
    assert [path.name for path in (tmp_path / "speclsp").iterdir()] == ["learned.sqlite3"]
