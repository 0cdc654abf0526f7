"""How often drafts were right, kept on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from speclsp.errors import StoreError
from speclsp.storage.calibration_store import CalibrationStore
from speclsp.storage.locations import calibration_store_path

CELLS = {"suffix:buffer/1/2": (3.5, 8.25), "=/0/4": (0.125, 8.0)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "calibration.sqlite3"


def test_what_is_saved_is_loaded_by_another_server(path: Path) -> None:
    store = CalibrationStore(path)
    assert store.load("model") == {}
    store.save("model", CELLS)
    other = CalibrationStore(path)
    assert other.load("model") == CELLS
    assert other.load("another") == {}
    other.save("model", {"=/0/4": (1.0, 2.0)})
    assert store.load("model") == {"=/0/4": (1.0, 2.0)}
    assert store.n_models() == 1
    store.close()
    other.close()


def test_nobody_else_reads_it(path: Path) -> None:
    CalibrationStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_models_not_used_for_longest_are_forgotten(path: Path) -> None:
    now = iter(range(100))
    store = CalibrationStore(path, max_models=2, clock=lambda: next(now))
    for model in ("a", "b", "a", "c"):
        store.save(model, CELLS)
    assert store.load("b") == {}
    assert store.load("a") == store.load("c") == CELLS


def test_a_damaged_file_is_set_aside(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)
    heard: list[StoreError] = []
    store = CalibrationStore(path, report=heard.append)
    assert store.load("model") == {}
    store.save("model", CELLS)
    assert store.load("model") == CELLS
    assert "damaged" in heard[0].message
    assert path.with_name("calibration.sqlite3.damaged").exists()


def test_forgetting(path: Path) -> None:
    store = CalibrationStore(path)
    store.save("a", CELLS)
    store.save("b", CELLS)
    assert store.forget_all() == 2
    assert store.load("a") == {}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        CalibrationStore(tmp_path / "file" / "calibration.sqlite3")


def test_it_lies_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = CalibrationStore.open()
    store.save("a", CELLS)
    assert calibration_store_path() == tmp_path / "speclsp" / "calibration.sqlite3"
    assert calibration_store_path().exists()
    store.close()
