"""``nextEdit`` of ``speclsp complete``."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from forked_speclsp import run_speclsp
from recording_server import RecordingServer, recording_server

pytestmark = pytest.mark.real

CODE = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n"
BEFORE = CODE.replace("prices", "numbers", 1)
"""The parameter is renamed, and its use is not."""


def asking(msg_id: int, **params: Any) -> dict[str, Any]:
    given = {"path": "a.py", "text": CODE, "offset": 12, **params}
    return {"jsonrpc": "2.0", "id": msg_id, "method": "nextEdit", "params": given}


def answers(requests: list[dict[str, Any]], *options: str) -> dict[int, dict[str, Any]]:
    """Return the answers of one process, by id."""
    data = "\n".join(map(json.dumps, requests)).encode()
    run = run_speclsp("complete", "--no-persist", *options, data=data)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    found = {line["id"]: line for line in lines}
    assert len(lines) == len(found), "a request was answered twice"
    return found


@pytest.fixture
def model() -> Iterator[RecordingServer]:
    with recording_server("zeta-2", CODE.replace("in prices", "in numbers")) as server:
        yield server


def test_an_edit_or_why_there_is_none(model):
    renamed = CODE.replace("(prices)", "(numbers)")
    asked = [
        asking(1, text=renamed, before=[CODE]),
        asking(2, text=CODE),
        asking(3, text="x = '<|user_cursor|>'\n"),
        asking(4, offset=1000),
        asking(5, text=7),
        asking(6, text=CODE.replace("in prices", "in numbers")),
    ]
    model.answer = lambda _prompt: renamed.replace("in prices", "in numbers")
    found = answers(asked, "--engine-url", model.address, "--engine-kind", "openai")
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    first = found[1]["result"]
    at = renamed.index("prices")
    assert first["edit"] == {"start": at, "end": at + 5, "text": "number"}
    assert [hunk["text"] for hunk in first["hunks"]] == ["    for price in numbers:\n"]
    assert (first["withheld"], first["isFar"], first["finishReason"]) == ("", False, "stop")
    assert first["id"]
    # Each request is a document of its own, with no trail of the one before.
    assert ["-def total(prices):\n" in prompt for prompt in model.prompts] == [True, False, False]
    assert found[2]["result"]["edit"] is not None
    assert (found[3]["result"]["edit"], found[3]["result"]["withheld"]) == (None, "refused")
    assert [found[number]["error"]["code"] for number in (4, 5)] == [-32602, -32602]
    assert found[6]["result"]["edit"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("edit_format", ["sweep-8", "sweep-21", "zeta-1"])
@pytest.mark.parametrize("sampling", [[], ["--temperature", "0.8", "--seed", "7"]])
def test_drafts_change_no_answer(edit_format, sampling):
    """The embedded model: where it leaves the region, how long its answer is, and how it ends."""
    asked = [asking(offset, offset=offset, before=[BEFORE]) for offset in (10, 30, 60)]
    options = ("--edit-format", edit_format, "--threads", "1", "--mode", "tree", *sampling)
    said: list[list[Any]] = []
    n_passes: list[int] = []
    for speculation in ((), ("--no-speculation",)):
        found = [answer["result"] for answer in answers(asked, *options, *speculation).values()]
        said.append(
            [
                (
                    one["edit"],
                    one["withheld"],
                    [place["line"] for place in one["divergences"]],
                    one["stats"]["nPredicted"],
                    one["finishReason"],
                )
                for one in found
            ]
        )
        n_passes.append(sum(one["stats"]["nTargetPasses"] for one in found))
    assert said[0] == said[1]
    assert all(lines for _, _, lines, _, _ in said[0])
    assert n_passes[0] < n_passes[1]
