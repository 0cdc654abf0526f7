"""A store on disk that a completion must not depend on: opened late, given up when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from speclsp.completer.events import EventQueue
from speclsp.errors import StoreError
from speclsp.storage.database import BusyError, Report


class Closable(Protocol):
    """What every store can do."""

    def close(self) -> None:
        """Close; calling it again changes nothing."""


_Store = TypeVar("_Store", bound=Closable)
_Result = TypeVar("_Result")


class KeptStore(Generic[_Store]):
    """A store that is opened when it is first used.  Belongs to one thread.

    After a failure it is not used again, and the log says once what is no longer kept.  That
    another process is writing is no failure: the next use may go well.
    """

    def __init__(
        self,
        open_store: Callable[[Report], _Store],
        events: EventQueue,
        *,
        what: str,
        persist: bool,
    ) -> None:
        """Keep ``what``, a clause for the log such as ``how often drafts are right is``."""
        self._open_store = open_store
        self._events = events
        self._what = what
        self._store: _Store | None = None
        self.is_kept = persist
        """Whether anything is kept: the settings allow it, and the store has not failed."""

    def use(self, work: Callable[[_Store], _Result], otherwise: _Result) -> _Result:
        """Return what ``work`` returns, and ``otherwise`` where it cannot be done now or at all."""
        if not self.is_kept:
            return otherwise
        try:
            if self._store is None:
                self._store = self._open_store(self._report)
            return work(self._store)
        except BusyError as error:
            self._events.log("info", str(error))
        except StoreError as error:
            self.is_kept = False
            self.close()
            self._events.log("warning", f"{self._what} not kept: {error}")
        return otherwise

    def close(self) -> None:
        """Close; a later use opens it again."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _report(self, error: StoreError) -> None:
        self._events.log("warning", str(error))
