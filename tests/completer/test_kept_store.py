"""A store that fails is given up once; one that is busy is tried again."""

from __future__ import annotations

from speclsp.completer.events import EventQueue
from speclsp.completer.kept_store import KeptStore
from speclsp.errors import StoreError
from speclsp.request import LogLine
from speclsp.storage.database import BusyError, Report


class Store:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


class Shelf:
    """Opens stores, and remembers them."""

    def __init__(self, *, persist: bool = True) -> None:
        self.stores: list[Store] = []
        self.events = EventQueue()
        self.kept = KeptStore(self.open, self.events, what="what was learned is", persist=persist)

    def open(self, report: Report) -> Store:
        self.stores.append(Store(report))
        return self.stores[-1]

    def logged(self) -> list[tuple[str, str]]:
        lines = []
        while (event := self.events.next(0.0)) is not None:
            assert isinstance(event, LogLine)
            lines.append((event.level, event.message))
        return lines


def fail(error: StoreError) -> None:
    raise error


def test_it_is_opened_with_the_first_use_and_once() -> None:
    shelf = Shelf()
    assert shelf.stores == []
    assert [shelf.kept.use(lambda store: store.n_closed, otherwise=9) for _ in range(2)] == [0, 0]
    assert len(shelf.stores) == 1
    shelf.stores[0].report(StoreError("it was damaged."))
    assert shelf.logged() == [("warning", "it was damaged.")]
    shelf.kept.close()
    shelf.kept.close()
    assert shelf.stores[0].n_closed == 1


def test_what_is_not_to_be_kept_opens_nothing() -> None:
    shelf = Shelf(persist=False)
    assert shelf.kept.use(lambda _store: 1, otherwise=9) == 9
    assert (shelf.stores, shelf.logged()) == ([], [])


def test_a_failure_closes_it_for_good_and_is_logged_once() -> None:
    shelf = Shelf()
    for _ in range(2):
        shelf.kept.use(lambda _store: fail(StoreError("the disk is full.")), otherwise=None)
    assert not shelf.kept.is_kept
    assert [store.n_closed for store in shelf.stores] == [1]
    assert shelf.logged() == [("warning", "what was learned is not kept: the disk is full.")]


def test_another_writer_is_no_failure() -> None:
    shelf = Shelf()
    shelf.kept.use(lambda _store: fail(BusyError("database is locked.")), otherwise=None)
    assert shelf.kept.use(lambda store: store.n_closed, otherwise=9) == 0
    assert shelf.kept.is_kept
    assert shelf.logged() == [("info", "database is locked.")]
