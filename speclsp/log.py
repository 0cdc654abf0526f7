"""Delivers log records and printed lines from any thread to a sink.

Python's log records go to the editor's log (:func:`logging_to`) or to standard error
(``speclsp.cli.without_editor``).  Standard output carries the protocol, so prints are logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias, get_args

from speclsp.event_loop import post
from speclsp.printable import printable
from speclsp.seam.events import LogLevel

logger = logging.getLogger(__name__)

LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
"""From the least to the most severe, as Python's levels 10, 20, 30 and 40."""
Deliver: TypeAlias = Callable[[LogLevel, str], object]
_OWN_LOGGER = "speclsp"


class RecordLog(logging.Handler):
    """Calls ``deliver`` with the level and text of each log record, on the record's thread.

    The text of another program's record begins with its logger's name.  What is not printable in a
    text, which may quote other programs, is replaced.
    """

    def __init__(self, deliver: Deliver) -> None:
        super().__init__()
        self._deliver = deliver

    def emit(self, record: logging.LogRecord) -> None:
        """Deliver a record."""
        own = record.name == _OWN_LOGGER or record.name.startswith(f"{_OWN_LOGGER}.")
        source = "" if own else f"{record.name}: "
        try:
            text = source + self.format(record)
        except (TypeError, ValueError, KeyError, AttributeError):
            # The arguments do not fit the format; logging itself would write to standard error.
            text = f"{record.name}: {record.msg!r} {record.args!r}"
        level = LEVELS[min(max(record.levelno // 10 - 1, 0), len(LEVELS) - 1)]
        self._deliver(level, printable(text, keep="\t\n"))


class PrintedLines(io.TextIOBase):
    """A text stream whose lines become log records."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Log each line that is complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            logger.info("printed: %s", line)
        return len(text)


@contextlib.contextmanager
def logging_to(deliver: Deliver) -> Iterator[None]:
    """Call ``deliver`` on the running loop with each record; those after its end are lost."""
    with logging_by(partial(post, asyncio.get_running_loop(), deliver)):
        yield


@contextlib.contextmanager
def logging_by(deliver: Deliver) -> Iterator[None]:
    """Deliver all records of speclsp, warnings and errors of others, and Python's warnings."""
    handler = RecordLog(deliver)
    root = logging.getLogger()
    own = logging.getLogger(_OWN_LOGGER)
    former = own.level
    root.addHandler(handler)
    own.setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        own.setLevel(former)
        root.removeHandler(handler)
