"""``--fast``: each test is skipped where it begins to start a process or to load a model.

No list says which tests these are, so that none can be wrong.  Only what a thread of the code under
test would start or load is to be marked ``real``, since a thread cannot skip its test; and tests
that take seconds without either, ``slow``.
"""

import sys
import threading
from collections.abc import Generator
from typing import Any

import llama_cpp
import pytest
from hypothesis import settings

_WHY = "--fast: it starts a process or loads a model"


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("real", "slow"))


class FastTests:
    """The plugin; a vocabulary without its weights is not slow."""

    def __init__(self) -> None:
        self._in_a_test = False
        settings.register_profile("fast", settings(), max_examples=10)
        settings.load_profile("fast")
        load = llama_cpp.llama_model_load_from_file

        def load_vocabulary_only(path: bytes, params: Any) -> Any:
            if not params.vocab_only:
                self._skip()
            return load(path, params)

        llama_cpp.llama_model_load_from_file = load_vocabulary_only
        sys.addaudithook(self._audit)

    def _skip(self) -> None:
        if threading.current_thread() is threading.main_thread():
            pytest.skip(_WHY)
        raise RuntimeError("With --fast a thread starts nothing: mark the test `real`.")

    def _audit(self, event: str, _arguments: Any) -> None:
        if self._in_a_test and event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
            self._skip()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._in_a_test = True
        try:
            return (yield)
        finally:
            self._in_a_test = False

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        slow = [item for item in items if _is_slow(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not _is_slow(item)]
