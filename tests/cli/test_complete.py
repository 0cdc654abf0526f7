"""``speclsp complete`` as a process, with the real engine."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from forked_speclsp import ForkedSpeclsp, run_speclsp

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]

PREFIXES = (
    "def add(a, b):\n    return ",
    "import os\nimport ",
    "class Point:\n    def __init__(self, x, y):\n        self.x = x\n        self.",
    "for i in range(10):\n    ",
    "def find(items, name):\n    for item in items:\n        if item.name == name:\n            ",
    "class Stack:\n    def push(self, item):\n        self.items.append(item)\n\n    def pop(",
    "try:\n    value = int(text)\nexcept ",
    "with open(path) as file:\n    for line in ",
    "    def to_dict(self):\n        return {\n            'id': self.id,\n            'name': ",
    "# Größe und Maß 𝔘\nx = ",
)


class DrafterStats(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    n_drafts: int
    n_drafted: int
    n_accepted: int


class Stats(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    n_prompt: int
    n_prompt_evaluated: int
    n_predicted: int
    n_target_passes: int
    n_drafted: int
    n_accepted: int
    drafters: dict[str, DrafterStats]
    ms_prompt: float
    ms_predict: float
    ms_draft: float


class Result(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The schema of the protocol; wider in nothing."""

    text: str
    n_replaced: int
    finish_reason: str
    stats: Stats


def request(id_: Any, prefix: str, **params: Any) -> dict[str, Any]:
    whole = {"path": "pkg/mod.py", "prefix": prefix, "suffix": "\n", "nPredict": 24, **params}
    return {"jsonrpc": "2.0", "id": id_, "method": "complete", "params": whole}


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def framed(*messages: Any) -> bytes:
    bodies = [json.dumps(message).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)


def complete(data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return run_speclsp("complete", "--threads", "1", *options, data=data)


def answers(outcome: subprocess.CompletedProcess[bytes]) -> list[Any]:
    assert outcome.returncode == 0, outcome.stderr.decode()
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def test_ten_lines_get_ten_answers():
    # Mode auto would draft little beside a model that is so fast.
    asked = lines(*(request(i, p) for i, p in enumerate(PREFIXES)))
    ten = answers(complete(asked, "--mode", "tree"))
    assert [answer["id"] for answer in ten] == list(range(10))
    for answer in ten:
        result = msgspec.convert(answer["result"], Result)
        assert result.finish_reason in {"stop", "length"}
        stats = result.stats
        assert 0 < stats.n_prompt_evaluated <= stats.n_prompt
        assert 0 < stats.n_target_passes <= stats.n_predicted <= 24
        # Each pass emits the accepted draft tokens and one more; the last may be cut by a stop.
        assert stats.n_predicted <= stats.n_accepted + stats.n_target_passes
        assert sum(d.n_drafted for d in stats.drafters.values()) == stats.n_drafted
        assert sum(d.n_accepted for d in stats.drafters.values()) == stats.n_accepted
    assert sum(bool(answer["result"]["text"]) for answer in ten) >= 8
    assert sum(answer["result"]["stats"]["nAccepted"] for answer in ten) > 0


def test_content_length_frames_and_broken_messages():
    broken = b"Content-Length: 5\r\n\r\n{oops"
    data = framed(request("a", PREFIXES[0])) + broken + framed({"jsonrpc": "2.0", "id": 2})
    outcome = complete(data + framed(request(3, PREFIXES[1], nPredict="many")))
    assert outcome.returncode == 0
    found: list[Any] = []
    rest = outcome.stdout
    while rest:
        header, _, rest = rest.partition(b"\r\n\r\n")
        length = int(header.removeprefix(b"Content-Length: "))
        found.append(json.loads(rest[:length]))
        rest = rest[length:]
    by_id = {answer["id"]: answer for answer in found}
    assert len(found) == 4
    assert msgspec.convert(by_id["a"]["result"], Result).text
    assert by_id[None]["error"]["code"] == -32700
    assert by_id[2]["error"]["code"] == -32600
    assert by_id[3]["error"]["code"] == -32602
    assert by_id[3]["error"]["data"] == {"field": "$.params.nPredict"}


def test_settings_and_drafters_by_option():
    data = lines(request(1, PREFIXES[2]), {"jsonrpc": "2.0", "id": 2, "method": "statistics"})
    found = answers(complete(data, "--drafters", "prompt-lookup", "--log-level", "error"))
    assert set(found[0]["result"]["stats"]["drafters"]) == {"prompt-lookup"}
    assert found[1]["result"]["nRequests"] == 1
    assert found[1]["result"]["nCtx"] > 0


def shape(line: str) -> str:
    """A line of the statistics without its figures and names."""
    line = re.sub(r"statistics +\S+:", "statistics NAME:", line)
    line = re.sub(r"model = .*, n_ctx", "model = NAME, n_ctx", line)
    line = re.sub(r"latency +\w+:", "latency STAGE:", line)
    return re.sub(r" *[\d.]+(, [\d.]+)*", " N", line)


def test_the_page_on_statistics_shows_a_session_s_block():
    page = (ROOT / "docs" / "statistics-log.md").read_text()
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    project = str(ROOT / "fixtures" / "sample_project")
    asked = lines(*(request(i, p) for i, p in enumerate(PREFIXES)))
    outcome = complete(asked, "--mode", "tree", "--no-persist", "--project", project)
    log = outcome.stderr.decode().splitlines()
    block = [line.removeprefix("info: ") for line in log]
    block = block[next(idx for idx, line in enumerate(block) if line.startswith("requests = ")) :]
    # Whether there is advice depends on times.
    block = [line for line in block if not line.startswith(("freed the model", "advice: "))]
    found = {shape(line) for line in block}
    assert found == {shape(line) for line in shown if not line.startswith("advice: ")}


def test_timings_are_shown_after_each_answer():
    data = lines(request(1, PREFIXES[0]), request(2, PREFIXES[1]))
    outcome = complete(data, "--show-timings", "--log-level", "error")
    found = answers(outcome)
    shown = outcome.stderr.decode().splitlines()
    assert [line.split("=")[0].strip() for line in shown] == 2 * [
        "prompt eval time",
        "eval time",
        "total time",
        "draft acceptance rate",
    ]
    for answer, line in zip(found, shown[1::4], strict=True):
        assert f"{answer['result']['stats']['nPredicted']} tokens (" in line


def test_log_goes_to_stderr_and_nothing_else_to_stdout(tmp_path):
    (tmp_path / "usercustomize.py").write_text("")
    outcome = complete(lines(request(1, PREFIXES[0])), "--log-level", "debug")
    assert len(answers(outcome)) == 1
    assert b"statistics" in outcome.stderr
    assert b"llama" in outcome.stderr


def test_an_empty_input_is_fine():
    outcome = complete(b"")
    assert (outcome.returncode, outcome.stdout) == (0, b"")
    assert b"error" not in outcome.stderr
    assert b"requests = " not in outcome.stderr


@pytest.mark.parametrize("name", ["missing.gguf", "broken.gguf"])
def test_a_model_that_cannot_be_loaded(tmp_path, name):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and nothing else")
    outcome = complete(lines(request(1, "x"), request(2, "y")), "--model", str(tmp_path / name))
    for answer in answers(outcome):
        assert answer["error"]["code"] == -32000
        assert name in answer["error"]["message"]
        assert answer["error"]["data"]["remedy"]


def test_wrong_options_are_usage_errors(tmp_path):
    for options, word in (
        (["--ctx-size", "-1"], b"--ctx-size"),
        (["--project", str(tmp_path / "nowhere")], b"--project"),
    ):
        outcome = complete(b"", *options)
        assert outcome.returncode == 2
        assert word in outcome.stderr
        assert outcome.stdout == b""


def test_one_place_is_completed_with_the_whole_project(tmp_path):
    for n in range(15):
        (tmp_path / f"m{n}.py").write_text(f"def f{n}(a, b):\n    return a + b + {n}\n" * 200)
    place = f"{tmp_path / 'm0.py'}:2:12"
    outcome = complete(
        b"", place, "--project", str(tmp_path), "--no-persist", "--log-level", "info"
    )
    assert outcome.returncode == 0, outcome.stderr.decode()
    (index,) = (line for line in outcome.stderr.decode().splitlines() if "index = " in line)
    assert "index = 15 files" in index
    assert "still building" not in outcome.stderr.decode()


class Process:
    """A process that is spoken to line by line."""

    def __init__(self, *options: str) -> None:
        self.process = ForkedSpeclsp("complete", "--threads", "1", *options)

    def send(self, *messages: Any) -> None:
        self.process.stdin.write(lines(*messages))
        self.process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    yield process
    process.process.kill()
    process.process.end()


def test_cancel_and_shutdown(process):
    # The cancelled one waits behind the first, so that it is unanswered whatever the speed.
    long = request(1, PREFIXES[2], nPredict=512, maxLines=500)
    process.send(long, request(2, PREFIXES[3]))
    process.send({"jsonrpc": "2.0", "id": 3, "method": "cancel", "params": {"id": 2}})
    process.send({"jsonrpc": "2.0", "id": 4, "method": "shutdown"})
    by_id = {answer["id"]: answer["result"] for answer in (process.answer() for _ in range(4))}
    assert by_id[3] == {"cancelled": True}
    assert msgspec.convert(by_id[2], Result).finish_reason == "cancelled"
    assert msgspec.convert(by_id[1], Result).finish_reason in {"stop", "length"}
    assert by_id[4] is None
    assert process.process.wait(timeout=600) == 0  # although its input is still open


def test_a_reader_that_goes_away_ends_the_process(process):
    process.send(request(1, PREFIXES[0]))
    assert process.answer()["id"] == 1
    process.process.stdout.close()
    process.send(*(request(i, PREFIXES[0]) for i in range(2, 5)))
    assert process.process.wait(timeout=600) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_process(number, process):
    process.send(request(1, PREFIXES[0]))
    assert process.answer()["id"] == 1
    process.process.send_signal(number)
    assert process.process.wait(timeout=600) == 1


def test_a_text_is_completed_once_with_timings_and_the_acceptance_of_drafts():
    text = PREFIXES[4]
    outcome = complete(b"", "-p", text, "-n", "24", "--mode", "tree", "--show-timings")
    assert outcome.returncode == 0, outcome.stderr.decode()
    said = outcome.stderr.decode().splitlines()
    timings = [line for line in said if not line.startswith("info: ")]
    assert [line.partition(" = ")[0].strip() for line in timings] == [
        "prompt eval time",
        "eval time",
        "total time",
        "draft acceptance rate",
    ]
    drafted = [line for line in said if "statistics           suffix" in line]
    assert len(drafted) == 1, said
    asked = lines(request(1, text, suffix="", path="", singleLine=False))
    (answer,) = answers(complete(asked, "--mode", "tree"))
    assert outcome.stdout.decode() == answer["result"]["text"] + "\n"
    plain = complete(b"", "-p", text, "-n", "24", "--no-speculation", "--show-timings")
    assert plain.stdout == outcome.stdout
    assert not re.search(rb"^draft acceptance", plain.stderr, re.MULTILINE)
