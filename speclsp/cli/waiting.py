"""Completing without an editor: a request waits for the model instead of being refused."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError

from speclsp.cancellation import CancellationToken
from speclsp.errors import EngineUnavailableError
from speclsp.request import CompletionRequest, CompletionResult
from speclsp.seam import Completer

POLL_S = 0.01
MAX_REFUSALS = 500
"""Times that a completer may refuse although it is neither loading nor switched off nor failed."""


def complete_when_ready(
    completer: Completer, request: CompletionRequest, cancel: CancellationToken
) -> CompletionResult | None:
    """Complete as soon as the model is loaded; None where it was cancelled before that.

    Raises :class:`~speclsp.errors.EngineUnavailableError` when the engine is off or failed to
    load, and :class:`~speclsp.errors.EngineError` where decoding fails.
    """
    n_refusals = 0
    while True:
        while completer.state() == "loading":
            if cancel.cancelled:
                return None
            time.sleep(POLL_S)
        try:
            return completer.complete(request, cancel).result()
        except CancelledError:
            return None
        except EngineUnavailableError:
            # The weights may have been freed, or begun to load, since the state was read.
            n_refusals += 1
            if completer.state() in {"off", "failed"} or n_refusals > MAX_REFUSALS:
                raise
            time.sleep(POLL_S)
