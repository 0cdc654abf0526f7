"""The memory of processes, as /proc tells it."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.machine import resident_bytes, tree_resident_bytes

PAGE = os.sysconf("SC_PAGE_SIZE")


def process(proc: Path, pid: int, parent: int, n_pages: int) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a) b (c) S {parent} 0 0")
    (folder / "statm").write_text(f"999 {n_pages} 1 1 0 1 0\n")


def test_a_tree_of_processes_is_added_up(tmp_path: Path) -> None:
    process(tmp_path, 10, 1, 5)
    process(tmp_path, 11, 10, 20)
    process(tmp_path, 12, 11, 300)
    process(tmp_path, 20, 1, 4000)
    (tmp_path / "13").mkdir()  # ended between being listed and being read
    assert tree_resident_bytes(10, tmp_path) == 325 * PAGE
    assert tree_resident_bytes(12, tmp_path) == 300 * PAGE
    assert tree_resident_bytes(99, tmp_path) is None


def test_this_process_is_told() -> None:
    own, tree = resident_bytes(), tree_resident_bytes(os.getpid())
    if own is not None:  # where there is /proc
        assert tree is not None
        assert tree > own // 2 > 0
