"""How often suggestions were accepted, kept on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from speclsp.errors import StoreError
from speclsp.storage.acceptance_store import (
    HALF_LIFE_DAYS,
    MAX_SHOWN,
    AcceptanceCount,
    AcceptanceStore,
)

DAY_S = 86_400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "acceptance.sqlite3"


def count(n_shown: float, n_chars: float = 0.0) -> AcceptanceCount:
    return AcceptanceCount(n_shown, n_chars)


def test_several_servers_add_up(path: Path) -> None:
    store, other = AcceptanceStore(path), AcceptanceStore(path)
    store.add("model", {3: count(1, 12)})
    other.add("model", {3: count(1), 7: count(2, 30)})
    store.add("another", {3: count(5)})
    assert store.load("model") == {3: count(2, 12), 7: count(2, 30)}
    assert other.load("nothing") == {}
    assert store.n_models() == 2
    assert other.forget_all() == 3
    assert store.load("model") == {}
    store.close()
    other.close()


def test_counts_fade(path: Path) -> None:
    days = [0.0]
    store = AcceptanceStore(path, clock=lambda: days[0] * DAY_S)
    store.add("model", {3: count(8, 40)})
    days[0] = 2 * HALF_LIFE_DAYS
    assert store.load("model") == {3: count(2, 10)}
    store.add("model", {3: count(1)})
    assert store.load("model") == {3: count(3, 10)}
    days[0] = HALF_LIFE_DAYS  # the clock was set back
    assert store.load("model") == {3: count(3, 10)}
    days[0] = 3 * HALF_LIFE_DAYS - 1
    store.add("model", {3: count(1)})
    days[0] = 3 * HALF_LIFE_DAYS  # news does not put ageing off
    assert store.load("model") == {3: count(2, 5)}
    days[0] = 1000 * HALF_LIFE_DAYS
    assert store.load("model")[3].n_shown < 1e-9


def test_the_old_gives_way_to_the_new(path: Path) -> None:
    store = AcceptanceStore(path)
    store.add("model", {3: count(2 * MAX_SHOWN, 800)})
    assert store.load("model") == {3: count(MAX_SHOWN, 400)}
    store.add("model", {3: count(MAX_SHOWN)})
    assert store.load("model") == {3: count(MAX_SHOWN, 200)}


def test_models_not_used_for_longest_are_forgotten(path: Path) -> None:
    days = iter(range(100))
    store = AcceptanceStore(path, max_models=2, clock=lambda: next(days) * DAY_S)
    for model in ("a", "b", "a", "c"):
        store.add(model, {1: count(1)})
    assert store.load("b") == {}
    assert set(store.load("a")) == set(store.load("c")) == {1}


def test_nobody_else_reads_it(path: Path) -> None:
    AcceptanceStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_file_is_set_aside(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)
    heard: list[StoreError] = []
    store = AcceptanceStore(path, report=heard.append)
    store.add("model", {1: count(1)})
    assert store.load("model") == {1: count(1)}
    assert "damaged" in heard[0].message
