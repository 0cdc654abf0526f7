"""One editor for each client, and the table that the run makes."""

import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from client_features import (
    CHECKOUTS,
    HAS_NONE,
    HERE,
    IS_WRITTEN,
    note_result,
    table,
    write_into_page,
)
from nvim_plugins import EDITING, PLUGINS
from plugin_session import TRIAL, PluginSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling, Scheduling

if IS_WRITTEN:
    os.environ["SPECLSP_CLIENTS_RESULTS"] = str(HERE / "results")
# Workers of one run share it.
FOLDER = Path(
    os.environ.setdefault(
        "SPECLSP_CLIENTS_RESULTS", tempfile.mkdtemp(prefix="speclsp-clients-") if CHECKOUTS else "."
    )
)


@pytest.fixture(scope="session", autouse=True)
def _no_editor_around() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NVIM", raising=False)  # where the run itself is started in a Neovim
        yield


@pytest.fixture(scope="module")
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluginSession]:
    plugin, suite = request.param
    session = PluginSession(plugin, suite, tmp_path_factory.mktemp("session"), *TRIAL)
    yield session
    session.close()


class _ByClient(LoadScopeScheduling):
    """Runs a client's tests in one process: they share an editor, and a file of results.

    The groups of pytest-xdist 3.8 have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        names = ("llama.vscode", *(plugin.name for plugin in (*PLUGINS, *EDITING)))
        module, _, parameters = nodeid.partition("[")
        if module.startswith("tests/clients/test_llama_vscode.py"):
            return names[0]
        return next((name for name in names if name in parameters), module)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return _ByClient(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note a test with a mark ``feature`` and a property ``client`` in the table."""
    report = yield
    mark = item.get_closest_marker("feature")
    noted = dict(item.user_properties)
    if CHECKOUTS and mark and "client" in noted and (report.when == "call" or not report.passed):
        found = "yes" if report.passed else "no"
        if report.skipped:
            found = HAS_NONE
        cell = str(noted.get("note") or found)
        note_result(FOLDER, str(noted["client"]), str(noted["editor"]), mark.args[0], cell)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CHECKOUTS and any(FOLDER.glob("*.json")):
        if IS_WRITTEN:
            write_into_page(FOLDER)
        terminalreporter.write_line(f"\nThe table, from {FOLDER}:\n\n{table(FOLDER)}")
