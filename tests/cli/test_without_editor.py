import logging
import warnings
from functools import partial
from typing import Any

import pytest

from speclsp.cli.without_editor import describe, running, write_event, write_line
from speclsp.log import logging_by
from speclsp.seam.event_pump import EventPump
from speclsp.seam.events import Event, EventQueue, LogLine, Problem, Progress, StateChanged
from speclsp.settings import Settings


class Emitter:
    """The part of a completer that the log reads."""

    def __init__(self, *events: Event) -> None:
        self.events = EventQueue()
        self.next_event = self.events.next
        for event in events:
            self.events.emit(event)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (LogLine(level="warning", message="look"), ("warning", "look")),
        (Problem(message="It broke.", remedy="Mend it."), ("error", "It broke. Mend it.")),
        (StateChanged(state="ready"), ("debug", "engine ready.")),
        (Progress(token="t", stage="begin", title="Loading"), ("info", "Loading …")),
        (Progress(token="t", stage="report", percentage=40), ("debug", "40 %")),
        (Progress(token="t", stage="end"), ("info", "")),
    ],
)
def test_every_event_has_a_line(event, expected):
    assert describe(event) == expected


def test_what_is_left_is_written_before_the_log_stops(capsys):
    completer: Any = Emitter(
        LogLine(level="debug", message="hidden"),
        *(LogLine(level="info", message=f"line {n}") for n in range(50)),
        Progress(token="t", stage="end"),
    )
    log = EventPump(completer, partial(write_event, "info"))
    completer.events.close()
    log.finish()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"info: line {n}" for n in range(50)]


def test_without_events_the_log_sleeps():
    """It waits for the next event without a limit: one call each, and one for the end."""
    completer: Any = Emitter()
    limits = []
    completer.next_event = lambda *limit: limits.append(limit) or completer.events.next(*limit)
    log = EventPump(completer, partial(write_event, "info"))
    completer.events.emit(LogLine(level="info", message="one"))
    completer.events.close()
    log.finish()
    assert limits == [(), ()]


def test_a_problem_at_the_end_is_an_error(capsys):
    """As of a statistics file that does not exist, which a short run reports at its end."""
    completer: Any = Emitter()
    log = EventPump(completer, partial(write_event, "error"))
    completer.events.emit(Problem(message="a.ngrams cannot be read."))
    completer.events.close()
    log.finish()
    assert capsys.readouterr().err == "error: a.ngrams cannot be read.\n"


def test_closing_while_the_model_loads_is_no_error(capsys):
    with running(Settings(persist=False, index_project=False, threads=1), "error"):
        pass
    assert capsys.readouterr().err == ""


def test_records_and_warnings_are_written_like_events(capsys):
    with logging_by(partial(write_line, "info")):
        warnings.warn("a library's warning", RuntimeWarning, stacklevel=1)
        logging.getLogger("plugin").warning("look")
        logging.getLogger("speclsp.engine").info("loaded")
        logging.getLogger("speclsp.engine").debug("hidden")
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *_, look, loaded = captured.err.splitlines()
    assert first.startswith("warning: py.warnings: ")
    assert first.endswith("RuntimeWarning: a library's warning")
    assert (look, loaded) == ("warning: plugin: look", "info: loaded")
