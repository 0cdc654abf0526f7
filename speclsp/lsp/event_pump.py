"""Carries the completer's events from its threads onto the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from speclsp.request import Event
from speclsp.seam import Completer

logger = logging.getLogger(__name__)

_POLL_S = 0.25
_FINISH_TIMEOUT_S = 2.0


class EventPump:
    """One thread that waits for events and hands each to ``deliver`` on the running loop."""

    def __init__(self, completer: Completer, deliver: Callable[[Event], None]) -> None:
        self._completer = completer
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._finishing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speclsp-events", daemon=True)

    def start(self) -> None:
        """Begin to wait for events."""
        self._thread.start()

    async def finish(self) -> None:
        """Deliver what is left, then end the thread; to be called once the completer is closed."""
        self._finishing.set()
        await asyncio.to_thread(self._thread.join, _FINISH_TIMEOUT_S)
        await asyncio.sleep(0)  # lets the last deliveries run

    def _run(self) -> None:
        while True:
            try:
                event = self._completer.next_event(_POLL_S)
                if event is not None:
                    self._loop.call_soon_threadsafe(self._deliver, event)
                elif self._finishing.is_set():
                    return
            except RuntimeError:  # the loop has ended
                return
            except Exception:
                logger.exception("the completer's events ended")
                return
