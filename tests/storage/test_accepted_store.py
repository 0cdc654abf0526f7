import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from speclsp.storage.accepted_store import MAX_AGE_S, MAX_TEXT_BYTES, AcceptedStore
from speclsp.storage.locations import workspace_id

MakeStore = Callable[..., AcceptedStore]


def texts_of(store: AcceptedStore, root: str, n_texts: int) -> list[str]:
    return [kept.text for kept in store.recent(root, n_texts)]


@pytest.fixture
def make_store(tmp_path, closed):
    return lambda **arguments: closed(AcceptedStore(tmp_path / "s" / "a.sqlite3", **arguments))


def test_newest_texts_come_back_oldest_first(make_store):
    store = make_store()
    for text in ("one", "two", "три\n\t🦀"):
        store.append("/a", text)
    store.append("/b", "other")
    assert texts_of(store, "/a", 10) == ["one", "two", "три\n\t🦀"]
    assert texts_of(store, "/a", 2) == ["two", "три\n\t🦀"]
    assert texts_of(store, "/a", 0) == []
    assert texts_of(store, "/c", 10) == []
    assert texts_of(make_store(), "/b", 10) == ["other"]


def test_where_the_accepted_part_begins_is_kept(make_store):
    make_store().append("/a", "x = abc", 4)
    assert make_store().recent("/a", 10) == [("x = abc", 4, "")]


def test_a_store_opens_and_reads_while_another_process_writes(make_store, tmp_path):
    make_store().append("/a", "kept")
    with closing(sqlite3.connect(tmp_path / "s" / "a.sqlite3")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert texts_of(make_store(), "/a", 10) == ["kept"]


def test_number_of_texts_is_bounded_per_workspace(make_store):
    store = make_store(max_texts=3)
    for number in range(10):
        store.append("/a", str(number))
    store.append("/b", "x")
    assert texts_of(store, "/a", 100) == ["7", "8", "9"]
    assert texts_of(store, "/b", 100) == ["x"]


def test_texts_age(make_store):
    now = [1_000_000_000.0]
    store = make_store(clock=lambda: now[0])
    store.append("/a", "old")
    now[0] += MAX_AGE_S - 10
    store.append("/a", "young")
    assert texts_of(store, "/a", 10) == ["old", "young"]
    now[0] += 20
    assert texts_of(store, "/a", 10) == ["young"]
    store.append("/b", "x")
    assert sum(use.n_items for use in store.uses()) == 2


def test_a_clock_that_jumps_back_loses_nothing(make_store):
    now = [1_000_000_000.0]
    store = make_store(clock=lambda: now[0], max_texts=3)
    store.append("/a", "before")
    now[0] -= 10 * MAX_AGE_S
    store.append("/a", "after")
    assert texts_of(store, "/a", 10) == ["before", "after"]
    now[0] = 0.0
    store.append("/a", "at the epoch")
    assert texts_of(store, "/a", 10) == ["before", "after", "at the epoch"]


def test_odd_texts(make_store):
    store = make_store()
    store.append("/a", "lone \ud800 surrogate")
    store.append("/a", "nul \0 in it")
    store.append("/a", "x" * (MAX_TEXT_BYTES + 1))
    assert texts_of(store, "/a", 10) == ["lone ? surrogate", "nul \0 in it"]


def test_uses_and_forget(make_store):
    store = make_store(clock=lambda: 1_000_000_000.0)
    store.append("/a", "é")
    store.append("/b", "12345")
    store.append("/b", "6")
    uses = {use.workspace: use for use in store.uses()}
    assert (uses[workspace_id("/a")].n_items, uses[workspace_id("/a")].n_bytes) == (1, 2)
    assert (uses[workspace_id("/b")].n_items, uses[workspace_id("/b")].n_bytes) == (2, 6)
    assert store.forget(workspace_id("/b")) == 2
    assert texts_of(store, "/b", 10) == []
    assert texts_of(store, "/a", 10) == ["é"]
    assert store.forget_all() == 1
    assert store.uses() == []


def test_forgotten_text_is_gone_from_the_disk(make_store, tmp_path):
    store = make_store()
    store.append("/a", "hunter2 " * 50)
    store.forget_all()
    data = b"".join(path.read_bytes() for path in (tmp_path / "s").iterdir())
    assert b"hunter2" not in data


def test_user_store_lies_in_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    AcceptedStore.open().close()
    assert [path.name for path in (tmp_path / "speclsp").iterdir()] == ["accepted.sqlite3"]
