"""The completer's tests run over both completers: in this process and across a socket."""

from __future__ import annotations

import pytest
import typed_requests

KINDS = {"in-process": False, "across-socket": True}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "typed_completer" in vars(metafunc.module):
        metafunc.parametrize("seam", KINDS, indirect=True)


@pytest.fixture(autouse=True)
def seam(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = getattr(request, "param", "in-process")
    monkeypatch.setattr(typed_requests, "is_across_socket", KINDS[kind])
