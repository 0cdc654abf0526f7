"""The thread that hands a completer's events to their reader."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from speclsp.seam.completer import Completer
from speclsp.seam.events import Event

logger = logging.getLogger(__name__)

_FINISH_TIMEOUT_S: Final = 2.0


class EventPump:
    """A thread that calls ``deliver`` with each event of a completer until that is closed."""

    def __init__(self, completer: Completer, deliver: Callable[[Event], object]) -> None:
        self._completer = completer
        self._deliver = deliver
        self._thread = threading.Thread(target=self._run, name="speclsp-events", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until the remaining events of a closed completer are delivered."""
        self._thread.join(_FINISH_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while (event := self._completer.next_event()) is not None:
                self._deliver(event)
        except Exception:
            logger.exception("the completer's events ended")
