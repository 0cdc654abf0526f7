"""Whether the computer runs on its battery."""

from __future__ import annotations

import time
from typing import Final

import psutil

_FRESH_S: Final = 30.0
"""Seconds for which an answer holds: asking reads a few system files."""


class Battery:
    """The computer's battery, where it has one."""

    def __init__(self) -> None:
        self._asked_at = -_FRESH_S
        self._is_discharging = False

    def is_discharging(self) -> bool:
        """Whether the computer runs on its battery; False if that is unknown."""
        now = time.monotonic()
        if now - self._asked_at >= _FRESH_S:
            self._asked_at = now
            self._is_discharging = _is_discharging()
        return self._is_discharging


def _is_discharging() -> bool:
    # Missing where psutil knows no batteries of the system; a driver may refuse to be read.
    ask = getattr(psutil, "sensors_battery", None)
    try:
        battery = ask() if ask is not None else None
    except (OSError, ValueError, RuntimeError):
        return False
    return battery is not None and battery.power_plugged is False
