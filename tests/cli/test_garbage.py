from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from speclsp.cli import garbage
from speclsp.cli.garbage import N_FORCED, N_WANTED, QUIET_S, collected_in_pauses

TIMEOUT_S = 10.0


class Typist:
    """Says how long nobody has typed, and hears of each full collection."""

    def __init__(self) -> None:
        self.quiet = 0.0
        self.n_asked = 0
        self.asked = threading.Semaphore(0)
        self.collected = threading.Semaphore(0)

    def quiet_s(self) -> float:
        self.n_asked += 1
        self.asked.release()
        return self.quiet

    def collect(self) -> None:
        self.collected.release()


@pytest.fixture
def typist(monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    monkeypatch.setattr(garbage, "QUIET_S", 0.01)
    made = Typist()
    with collected_in_pauses(made.quiet_s, made.collect):
        yield made


def collect_middle(n: int) -> None:
    for _ in range(n):
        gc.collect(1)


def test_a_full_collection_waits_for_the_pause(typist: Typist) -> None:
    collect_middle(N_WANTED)
    for _ in range(3):  # as often it finds somebody typing
        assert typist.asked.acquire(timeout=TIMEOUT_S)
    assert not typist.collected.acquire(blocking=False)
    typist.quiet = QUIET_S
    assert typist.collected.acquire(timeout=TIMEOUT_S)


def test_nothing_is_collected_in_a_pause_where_nothing_was_made(typist: Typist) -> None:
    typist.quiet = QUIET_S
    collect_middle(N_WANTED)
    assert typist.collected.acquire(timeout=TIMEOUT_S)
    n_asked = typist.n_asked
    collect_middle(N_WANTED // 2)
    assert typist.n_asked == n_asked


def test_too_much_is_collected_while_somebody_types(typist: Typist) -> None:
    collect_middle(N_FORCED)
    assert typist.collected.acquire(timeout=TIMEOUT_S)
    assert typist.quiet == 0.0


def test_the_interpreter_makes_no_full_collection_by_itself() -> None:
    before = gc.get_threshold()
    n_full: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            n_full.append(1)

    with collected_in_pauses(lambda: 0.0):
        gc.callbacks.append(count)
        kept: list[list[list[int]]] = [
            [[] for _ in range(100)] for _ in range(2_000)
        ]  # 28 of the middle generation
        gc.callbacks.remove(count)
    assert len(kept) == 2_000
    assert not n_full
    assert gc.get_threshold() == before
    assert not any(t.name == "speclsp-garbage" for t in threading.enumerate())
