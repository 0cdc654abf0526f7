"""Real models for all tests: loaded once per session, cheap to share.

Targets are shared: a test that uses one starts with ``truncate(0)``.  They compute on one thread,
since two that wait for each other crawl on a busy machine.
"""

import signal
import ssl
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from engine_folder import engines_of_the_tests  # noqa: F401  # a fixture for all tests
from fast_tests import FastTests
from hypothesis import HealthCheck, settings
from quantised import write_q8_0
from quiet_loading import quiet_draft_model, quiet_target

from speclsp.backends.draft_model import DraftModelDrafter
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.vocabulary import LlamaVocabulary, load_vocabulary
from speclsp.settings import Settings

# Tests never judge by time: a busy machine is no defect.
settings.register_profile("speclsp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("speclsp")

# What nohup starts ignores SIGHUP, and so would the processes that the tests start.
signal.signal(signal.SIGHUP, signal.default_int_handler)

MODELS = Path(__file__).parent.parent / "fixtures" / "models"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="start no process and load no model")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        config.pluginmanager.register(FastTests())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send captured text as UTF-8: lone surrogates in it would end parallel runs."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(scope="session", autouse=True)
def _requests_have_time() -> Iterator[None]:
    """Cut no request short that a test gives no deadline: a busy machine is no defect."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Settings.__init__.__kwdefaults__, "deadline_ms", 600_000)
        yield


@pytest.fixture(scope="session", autouse=True)
def _mains_power() -> Iterator[None]:
    """Let idle work go on where the tests run on a battery."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("psutil.sensors_battery", lambda: None)
        yield


@pytest.fixture
def private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test, and its processes, remember out of the user's folders and other tests'."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """Return a self-signed certificate of localhost, and a server's context with it."""
    folder = tmp_path_factory.mktemp("certificate")
    made = ["-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    name = ["-addext", "subjectAltName=DNS:localhost"]
    try:
        subprocess.run(["openssl", "req", *made, *name, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl, which makes the certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return folder / "certificate.pem", context


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return MODELS


@pytest.fixture(scope="session")
def q8_0_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded target in Q8_0, which the repository does not keep."""
    path = tmp_path_factory.mktemp("quantised") / "embedded-target-q8_0.gguf"
    return write_q8_0(MODELS / "embedded-target-f16.gguf", path)


@pytest.fixture
def closed() -> Iterator[Callable[[Any], Any]]:
    """Takes what has a method ``close``, calls it at the test's end, and returns it."""
    with ExitStack() as stack:
        yield lambda one: stack.enter_context(closing(one))


@pytest.fixture(scope="session")
def target_f16() -> Iterator[LlamaTarget]:
    target = quiet_target(MODELS / "embedded-target-f16.gguf", ctx_size=2048)
    yield target
    target.close()


@pytest.fixture(scope="session")
def target_q8(q8_0_model: Path) -> Iterator[LlamaTarget]:
    target = quiet_target(q8_0_model, ctx_size=2048)
    yield target
    target.close()


@pytest.fixture(scope="session")
def vocabulary() -> LlamaVocabulary:
    return load_vocabulary(MODELS / "embedded-target-f16.gguf")


@pytest.fixture(scope="session")
def draft_q8(vocabulary: LlamaVocabulary) -> Iterator[DraftModelDrafter]:
    drafter = quiet_draft_model(MODELS / "embedded-draft-q8_0.gguf", vocabulary)
    yield drafter
    drafter.close()
