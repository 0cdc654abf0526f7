"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], *, within_s: float = 180.0) -> None:
    """Wait until ``condition`` holds; fail where it does not come about."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
