"""What verifying a draft costs on the models that one loader has loaded."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from speclsp.decoding.protocol import Target
from speclsp.decoding.verify_cost import VerifyCost
from speclsp.decoding.verify_measuring import measure_verify_cost
from speclsp.errors import DecodeError
from speclsp.request import LogLevel


class VerifyCosts:
    """Measures a model when it is loaded for the first time.

    Whoever comes back after idle time has the model loaded by a keystroke, and waits for the
    weights alone: what was measured, and learned since, holds.
    """

    def __init__(self, log: Callable[[LogLevel, str], None]) -> None:
        self._log = log
        self._known: dict[Hashable, VerifyCost] = {}

    def of(
        self,
        key: Hashable,
        target: Target,
        clock: Callable[[], float],
        hurried: Callable[[], bool],
    ) -> VerifyCost | None:
        """Return what is known of ``target``, measured if ``key`` is a new one.

        ``key`` says which model it is and what it is computed with; while ``hurried`` is true,
        less is measured.  None where a decode failed.
        """
        if key not in self._known:
            try:
                cost = measure_verify_cost(target, clock, hurried=hurried)
            except DecodeError as error:
                message = f"What verifying drafts costs could not be measured: {error.message}"
                self._log("warning", message)
                return None
            self._known[key] = cost
        return self._known[key]
