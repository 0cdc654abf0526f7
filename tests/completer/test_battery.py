from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from speclsp.completer.battery import Battery


@pytest.mark.parametrize(
    ("ask", "discharging"),
    [
        (lambda: SimpleNamespace(power_plugged=False), True),
        (lambda: SimpleNamespace(power_plugged=True), False),
        (lambda: SimpleNamespace(power_plugged=None), False),
        (lambda: None, False),
        (Mock(side_effect=OSError("the driver does not answer")), False),
    ],
)
def test_discharging(ask, discharging, monkeypatch):
    monkeypatch.setattr("psutil.sensors_battery", ask)
    assert Battery().is_discharging() is discharging


def test_the_battery_is_not_asked_at_each_call(monkeypatch):
    asked: list[None] = []
    monkeypatch.setattr("psutil.sensors_battery", lambda: asked.append(None))
    battery = Battery()
    for _ in range(3):
        battery.is_discharging()
    assert len(asked) == 1


def test_a_system_without_batteries(monkeypatch):
    monkeypatch.delattr("psutil.sensors_battery")
    assert Battery().is_discharging() is False
