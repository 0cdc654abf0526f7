"""The completer's tests run over both completers: in this process and across a socket."""

import pytest
import typed_requests


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "typed_completer" in vars(metafunc.module):
        across_socket = pytest.param("across-socket", marks=pytest.mark.slow)
        metafunc.parametrize("seam", ["in-process", across_socket], indirect=True)


@pytest.fixture(autouse=True)
def seam(request, monkeypatch):
    kind = getattr(request, "param", "in-process")
    monkeypatch.setattr(typed_requests, "is_across_socket", kind == "across-socket")


@pytest.fixture(autouse=True)
def _own_folders(private_folders):
    """Each completer keeps to folders of its own."""
