"""The commands with a remote engine, over HTTP."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from recording_server import RecordingServer, recording_server
from scripted_http import Request, response, scripted_server

from speclsp.cli.main import cli
from speclsp.errors import RemoteError


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server("qwen2.5-coder-7b", "a + b") as found:
        yield found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_doctor_names_the_engine_and_what_it_cannot_do(server):
    outcome = run("doctor", "--engine-url", server.address)
    assert outcome.exit_code == 0, outcome.output
    host = server.address.removeprefix("http://")
    assert f"remote engine: qwen2.5-coder-7b (openai at {host}), n_ctx" in outcome.output
    for lack in ("no drafts of this machine", "no token healing", "no probabilities"):
        assert f"note     remote engine: {lack}" in outcome.output
    assert "ok       completion: " in outcome.output
    assert "llama-cpp-python" not in outcome.output
    assert len(server.prompts) == 1


def test_doctor_says_that_nobody_answers_and_what_to_check():
    outcome = run("doctor", "--engine-url", "http://127.0.0.1:9")
    assert outcome.exit_code == 1
    assert "cannot be reached" in outcome.output
    assert "Next: Check that the server runs, engine_url" in outcome.output


def test_a_refusal_is_told_once_and_ends_the_command(tmp_path):
    (tmp_path / "a.py").write_text("x = ")
    models = {"data": [{"id": "qwen2.5-coder"}]}

    def script(request: Request) -> list[bytes]:
        found = request.path == "/v1/models"
        return [response(200, models) if found else response(404, {"message": "no such model"})]

    with scripted_server(script) as server:
        outcome = CliRunner().invoke(
            cli, ["complete", f"{tmp_path / 'a.py'}:1:5", "--engine-url", server.url]
        )
        n_asked = sum(request.path == "/v1/completions" for request in server.requests)
    assert isinstance(outcome.exception, RemoteError)
    assert outcome.exception.was_told
    assert outcome.stderr.count("no such model") == n_asked == 1


def test_explain_prints_what_would_be_sent_and_sends_nothing(server, tmp_path):
    (tmp_path / "sums.py").write_text("def add(a, b):\n    return \n")
    place = f"{tmp_path / 'sums.py'}:2:12"
    outcome = run("explain", place, "--engine-url", server.address, "--no-persist", "--json")
    path, _, body = json.loads(outcome.stdout)["request"].partition("\n")
    assert path == "POST /v1/completions"
    assert json.loads(body)["prompt"].endswith("<|fim_middle|>    return ")
    assert server.prompts == []
    assert "POST /v1/completions" in run("explain", place, "--engine-url", server.address).stdout


def test_a_remote_engines_model_is_not_checked():
    outcome = run("models", "check", "--engine-url", "http://127.0.0.1:9")
    assert outcome.exit_code == 2
    assert "a remote engine has one of its own" in outcome.output


def test_bench_says_that_there_are_no_drafts_to_compare(tmp_path):
    outcome = run("bench", str(tmp_path), "--engine-url", "http://127.0.0.1:9")
    assert outcome.exit_code == 2
    assert "a remote engine takes none" in outcome.output
