"""A completer of this process for a replay: with the models as the settings name them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.asking import LocalAsker
from speclsp.completer.local import LocalCompleter
from speclsp.engine.models import Loader
from speclsp.settings import Settings

LONGEST_REST_S: Final = 10.0
"""Idle work that takes longer is cut short by the next key."""


@contextmanager
def local_asker(
    settings: Settings,
    *,
    deadline_ms: int | None = None,
    rests: bool = True,
    loader: Loader | None = None,
) -> Iterator[LocalAsker]:
    """Make a completer that keeps nothing on disk, and close it in the end.

    ``deadline_ms`` of each request; None takes the settings'.  ``rests`` is False for a human who
    presses the next key at once.
    """
    completer = LocalCompleter(dataclasses.replace(settings, persist=False), loader=loader)
    completer.start()
    try:
        yield LocalAsker(
            completer,
            deadline_ms=deadline_ms,
            rest=lambda: completer.wait_idle(LONGEST_REST_S) if rests else None,
        )
    finally:
        completer.close()
