"""The command lines of llama-server's documents, pasted behind ``speclsp complete``.

They run in real processes, with the embedded models in place of theirs, and ``--mode first``, which
is llama-server's rule.
"""

import itertools
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import serve_hub
from forked_speclsp import run_speclsp

from speclsp.embedded import embedded_draft, embedded_target
from speclsp.models.presets import PRESETS

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
COMMANDS = (ROOT / "tests" / "seeds" / "llama_server_commands.txt").read_text().splitlines()
MODELS = {"-m": embedded_target, "-md": embedded_draft}
REPOSITORIES = {"-hf": embedded_target, "-hfd": embedded_draft}
FLAGS = {"--fim-qwen-7b-spec", "--fim-qwen-14b-spec"}

BLOCK = "".join(f"    total_{n} = first_{n} * second_{n} + third_{n}\n" for n in range(24))
REPEATED = f"def one():\n{BLOCK}\n\ndef two():\n{BLOCK}\n\ndef three():\n{BLOCK[: len(BLOCK) // 2]}"
NEW = "def find(items, name):\n    for item in items:\n        if item.name == name:\n            "
REQUESTS = [
    {"prefix": REPEATED, "suffix": "\n", "path": "a.py", "nPredict": 96, "singleLine": False},
    {"prefix": NEW, "suffix": "\n", "path": "b.py", "nPredict": 32, "singleLine": False},
]


@pytest.fixture(autouse=True)
def _hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the embedded models under all names; caches are in ``tmp_path``."""
    with serve_hub() as hub:
        for row in PRESETS.values():
            for file in row.files:
                of_draft = row.draft is not None and file is row.draft
                path = embedded_draft() if of_draft else embedded_target()
                hub.repositories.setdefault(file.repository, {})[file.file] = path.read_bytes()
        for command in COMMANDS:
            words = shlex.split(command)
            for option, name in itertools.pairwise(words):
                if option in REPOSITORIES:
                    data = REPOSITORIES[option]().read_bytes()
                    hub.repositories[name] = {"model-Q4_K_M.gguf": data}
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
            monkeypatch.setenv(name, str(tmp_path / name))
        for name in ("HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield


def pasted(command: str) -> list[str]:
    """Return the options of a command line, with the embedded models' files."""
    _, *words = shlex.split(command)
    for place, word in enumerate(words[:-1]):
        if word in MODELS:
            words[place + 1] = str(MODELS[word]())
    return words


def session(options: list[str]) -> tuple[dict[str, Any], str]:
    """Return the drafters' sums over the requests, and the log."""
    calls = [("complete", params) for params in REQUESTS] + [("statistics", {})]
    lines = "".join(
        json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}) + "\n"
        for n, (method, params) in enumerate(calls)
    )
    outcome = run_speclsp("complete", "--mode", "first", *options, data=lines.encode())
    assert outcome.returncode == 0, outcome.stderr
    answers = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert all(answer["result"] for answer in answers)
    return answers[-1]["result"]["totals"]["drafters"], outcome.stderr.decode()


def named_drafters(words: list[str]) -> set[str]:
    named = {words[words.index("--spec-type") + 1]} if "--spec-type" in words else set()
    return named | ({"draft"} if {"-md", "-hfd", *FLAGS} & {*words} else set())


@pytest.mark.parametrize("command", [one for one in COMMANDS if "llama-server" in one])
def test_a_pasted_command_line_gets_the_drafters_that_it_names(command):
    words = pasted(command)
    if {"-hf", *FLAGS} & {*words}:
        missing = run_speclsp("complete", *words)
        assert missing.returncode == 1
        # One message with one command for both models.
        (message,) = missing.stderr.decode().splitlines()[-1:]
        pull = message.partition("Run `speclsp ")[2].partition("`")[0]
        pulled = run_speclsp(*shlex.split(pull))
        assert pulled.returncode == 0, pulled.stderr
        assert len(pulled.stdout.splitlines()) == 2
    drafters, log = session(words)
    for name in named_drafters(words):
        assert drafters[name]["nDraftCalls"] > 0, (name, drafters)
        # Five tokens of 0.75 each are seldom; all others draft on these requests.
        assert drafters[name]["nDrafted"] > 0 or "--draft-p-min" in words, (name, drafters)
    for option, told in (
        ("-np", "-np is not needed: "),
        ("-devd", "The draft model computes on the CPU."),
        ("--spec-replace", "spec_replace changes nothing"),
        ("-cmoed", "spec_draft_cpu_moe changes nothing: embedded-draft-q8_0.gguf is no mixture"),
        ("-ncmoed", "spec_draft_n_cpu_moe changes nothing: embedded-draft-q8_0.gguf is no"),
    ):
        assert (told in log) == (option in words)
    if "-md" in words and "--spec-type" not in words:
        assert "`--spec-type draft --mode first` makes it the only drafter" in log


@pytest.mark.parametrize("command", [one for one in COMMANDS if "llama-cli" in one])
def test_a_pasted_benchmark_prints_times_and_acceptance(command):
    """The embedded model ends at once behind the word that these lines give as a prompt."""
    outcome = run_speclsp("complete", *pasted(command))
    assert outcome.returncode == 0, outcome.stderr
    log = outcome.stderr.decode()
    shown = [line for line in log.splitlines() if not line.startswith("info: ")]
    assert any("tokens per second" in line for line in shown)
    assert any(line.startswith("draft acceptance") for line in shown)
    assert ("statistics            draft" in log) == ("-md" in command)


@pytest.mark.parametrize(("max_ngram_size", "num_pred_tokens"), [(3, 8), (2, 4), (4, 16)])
def test_llama_crab_s_parameters_are_options(max_ngram_size, num_pred_tokens):
    sizes = ["--max-ngram-size", str(max_ngram_size), "--num-pred-tokens", str(num_pred_tokens)]
    drafters, log = session(["--spec-type", "prompt-lookup", *sizes])
    found = drafters["prompt-lookup"]
    assert found["nDrafted"] > 0
    assert len(found["nAcceptedAt"]) <= num_pred_tokens
    assert "warning" not in log
    assert "error" not in log
