"""A server's process, and what is said to it, with a program that answers like llama-server."""

import os
from pathlib import Path

import pytest
from fake_llama_server import as_program

from benchmarks.peers.infill import RESPONSE_FIELDS, JsonObject
from benchmarks.peers.llama_server import llama_server
from speclsp.errors import EngineError, EngineUnavailableError
from speclsp.seam.statistics import RequestStats
from tests.support import serving_process

REQUEST: JsonObject = {"prompt": "x = ", "response_fields": list(RESPONSE_FIELDS)}


def command(folder: Path, model: str) -> list[str]:
    return [str(as_program(folder)), "--model", model]


def is_running(log: Path) -> bool:
    """Whether a process runs whose command line names the log's folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(log.parent).encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_an_answer_has_the_servers_text_and_counts(tmp_path):
    log = tmp_path / "log"
    with llama_server(command(tmp_path, "fine"), log) as server:
        answer = server.infill(REQUEST)
        assert server.resident_mib() > 1
        assert is_running(log)
    assert not is_running(log)
    # One connection is asked whether the server is ready, and for the text.
    assert answer.text == "1 of 1: x = "
    assert answer.stats == RequestStats(
        n_prompt=12,
        n_prompt_evaluated=5,
        n_predicted=9,
        n_target_passes=5,
        n_decode_passes=4,
        n_drafted=8,
        n_accepted=4,
        ms_prompt=50.5,
        ms_predict=90.5,
    )
    assert "--host 127.0.0.1 --port 0" in log.read_text()


@pytest.mark.parametrize(("model", "connections"), [("fine", (1, 1, 1)), ("tires", (1, 2, 3))])
def test_a_connection_is_kept_or_opened_anew_where_the_server_closed_it(
    tmp_path, model, connections
):
    with llama_server(command(tmp_path, model), tmp_path / "log") as server:
        texts = [server.infill(REQUEST).text for _ in range(3)]
    assert texts == [f"{n} of {of}: x = " for n, of in enumerate(connections, 1)]


def test_a_refusal_says_what_the_server_says(tmp_path):
    with (
        llama_server(command(tmp_path, "refuses"), tmp_path / "log") as server,
        pytest.raises(EngineError, match=r"status 400: .*no such field"),
    ):
        server.infill(REQUEST)


def test_a_server_that_does_not_start_is_told_with_its_last_words(tmp_path):
    with (
        pytest.raises(EngineUnavailableError, match=r"status 1: (.|\n)*failed to load model"),
        llama_server(command(tmp_path, "dies"), tmp_path / "log"),
    ):
        pass


def test_a_server_that_ends_at_a_request_is_told_too(tmp_path):
    with llama_server(command(tmp_path, "forgets"), tmp_path / "log") as server:
        server.infill(REQUEST)
        server.infill(REQUEST)
        with pytest.raises(EngineUnavailableError, match=r"llama-server (.|\n)*forgot"):
            server.infill(REQUEST)


def test_a_program_that_is_not_there_is_told(tmp_path):
    with (
        pytest.raises(EngineUnavailableError, match="none"),
        llama_server([str(tmp_path / "none")], tmp_path / "log"),
    ):
        pass


def test_a_server_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(serving_process, "_ENDS_WITHIN_S", 0.2)
    log = tmp_path / "log"
    with llama_server(command(tmp_path, "stays"), log) as server:
        server.infill(REQUEST)
    assert not is_running(log)


def test_a_server_ends_where_its_user_fails(tmp_path):
    log = tmp_path / "log"
    with pytest.raises(KeyError), llama_server(command(tmp_path, "fine"), log):
        raise KeyError(os.getpid())
    assert not is_running(log)


def test_a_server_that_does_not_speculate_is_no_side_of_its_own(tmp_path):
    with (
        pytest.raises(EngineUnavailableError, match="it does not speculate: other vocabulary"),
        llama_server(command(tmp_path, "drafts_nothing"), tmp_path / "log"),
    ):
        pass
