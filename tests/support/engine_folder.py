"""A folder for the shared engines of a test run."""

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest

from speclsp.engine_process.start import running_engines, stop


@pytest.fixture(scope="session", autouse=True)
def engines_of_the_tests() -> Iterator[None]:
    """Share no engine with the user's windows, and leave none behind."""
    # Not below pytest's folders: a socket's path is short.
    with TemporaryDirectory(prefix="speclsp-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield
        for place in running_engines():
            stop(place)
