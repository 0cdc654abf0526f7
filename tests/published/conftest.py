"""The published models, loaded once each; the tests of one that is missing are skipped.

On two quiet cores the parts of the 0.5B take five minutes together and those of the 1.5B ten, the
pair among them; what each took is printed at the end.
"""

from collections import Counter
from pathlib import PurePath

import pytest
from published import MODELS, loaded_target, loaded_tokenizer, places, why_missing


@pytest.fixture(scope="module", params=MODELS)
def size(request):
    if reason := why_missing(request.param):
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(scope="module")
def tokenizer(size):
    return loaded_tokenizer(size)


@pytest.fixture(scope="module")
def target(size):
    loaded = loaded_target(size)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return {place.name: place.prompt(tokenizer) for place in places()}


_SECONDS: Counter[tuple[str, str]] = Counter()
"""What was spent, by model and file of tests."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = PurePath(report.nodeid.partition("::")[0])
    if path.parent.name == "published" and not report.skipped:
        size = next((size for size in MODELS if size in report.nodeid), "both")
        _SECONDS[size, path.stem.removeprefix("test_")] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for size in dict.fromkeys(size for size, _ in _SECONDS):
        parts = {part: seconds for (one, part), seconds in _SECONDS.items() if one == size}
        if sum(parts.values()) >= 1.0:
            told = ", ".join(f"{part} {seconds:.0f}" for part, seconds in parts.items())
            terminalreporter.write_line(f"{size}: {sum(parts.values()):.0f} s ({told})")
