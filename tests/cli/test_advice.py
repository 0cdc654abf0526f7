"""Advice and counts of sessions with the real engine, in processes of their own."""

import json
import re
from pathlib import Path

import pytest
from forked_speclsp import run_speclsp

pytestmark = pytest.mark.real

MODELS = Path(__file__).parents[2] / "fixtures" / "models"

FUNCTION = '''def {name}(items):
    """Return the {name} item."""
    for item in items:
        if item.is_ready:
            return item.value
    return None


'''
NAMES = ("second", "third", "fourth", "fifth", "sixth", "seventh")
REPEATED = "".join(
    FUNCTION.format(name=name) for name in ("first", "other", "last", "next", "best")
)


def block(*options: str, n_requests: int = len(NAMES)) -> list[str]:
    """Return the statistics of a session in which functions like the earlier ones are written."""
    requests = [
        {
            "prefix": REPEATED + FUNCTION.format(name=name).partition("    for")[0],
            "path": "items.py",
            "suffix": "\n",
        }
        for name in NAMES[:n_requests]
    ]
    messages = (
        json.dumps({"jsonrpc": "2.0", "id": idx, "method": "complete", "params": params})
        for idx, params in enumerate(requests)
    )
    data = "\n".join(messages).encode()
    outcome = run_speclsp("complete", "--threads", "1", "--no-persist", *options, data=data)
    assert outcome.returncode == 0
    return [line.removeprefix("info: ") for line in outcome.stderr.decode().splitlines()]


def advice(*options: str, **more: int) -> list[str]:
    return [
        line.removeprefix("advice: ")
        for line in block(*options, **more)
        if line.startswith("advice: ")
    ]


@pytest.mark.parametrize("mode", ["auto", "tree", "chain", "first"])
def test_the_drafters_generated_tokens_add_up(mode):
    log = "\n".join(block("--mode", mode, "--spec-type", "suffix,ngram-simple,ngram-cache"))
    total = re.search(r"draft acceptance rate = .*\( *(\d+) accepted / +(\d+) generated\)", log)
    accepted, generated = map(int, total.groups())
    assert generated >= accepted > 0
    of_drafters = re.findall(
        r"#gen drafts = +(\d+), #acc drafts = +(\d+), #gen tokens = +(\d+), #acc tokens = +(\d+)",
        log,
    )
    assert len(of_drafters) == 3
    assert sum(int(one[2]) for one in of_drafters) == generated
    assert sum(int(one[3]) for one in of_drafters) == accepted
    assert all(int(n_acc) <= int(n_gen) for n_gen, n_acc, _, _ in of_drafters)
    proposed = re.findall(r"#proposed drafts = +(\d+), #proposed tokens = +(\d+)", log)
    assert all(int(n[0]) >= int(one[0]) for n, one in zip(proposed, of_drafters, strict=True))


def test_a_good_session_has_no_advice():
    drafting = ("--mode", "first", "--spec-type", "suffix", "--max-draft", "28")
    assert advice(*drafting, n_requests=3) == []


def test_a_draft_model_larger_than_its_target_is_named():
    (line,) = advice(
        "-m", str(MODELS / "embedded-draft-q8_0.gguf"),
        "-md", str(MODELS / "embedded-target-f16.gguf"),
        "--mode", "tree",
    )  # fmt: skip
    assert line.startswith("speculation costs more than it saves here")
    assert "most by draft" in line
    assert "name a draft model (`spec_draft_model`) of a tenth of the target's size" in line
    assert "max_draft" not in line


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        (
            "ngram-mod",
            ("-n", "32"),
            "raise `n_predict` (32) above `draft_min` (48), its shortest draft, or lower that",
        ),
        (
            "draft",
            ("-md", "embedded", "--draft", "16", "--draft-min", "12", "--draft-p-min", "0.95"),
            "lower `draft_min` (12) or `drafter_options.draft.p_min` (0.95)",
        ),
    ],
)
def test_a_drafter_that_is_held_back_is_named(name, options, remedy):
    (line,) = advice("--mode", "first", "--spec-type", name, *options)
    found = re.fullmatch(rf"{name} proposed nothing in (\d+) of (\d+) calls .*: (.*)\.", line)
    assert found is not None, line
    assert (found[1], found[3]) == (found[2], remedy)
