"""One llama-server, asked by speclsp and by llama.vim's logic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from built_llama_server import WHY_NOT, built_llama_server
from click.testing import CliRunner

from benchmarks.commands import cli

CASES = Path(__file__).parents[2] / "fixtures" / "cases" / "cases.jsonl"


@pytest.mark.real
@pytest.mark.skipif(built_llama_server() is None, reason=WHY_NOT)
def test_each_key_costs_a_tenth_of_the_prompt_tokens_and_no_answer_is_lost(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["--llama-server", str(built_llama_server()), "--json", str(figures)]
    arguments += ["--rounds", "1", "--n-cases", "1", "--keys", "24", "--threads", "1"]
    result = CliRunner().invoke(cli, ["remote", str(CASES), *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    ids, text, vim = (rounds[0] for rounds in json.loads(figures.read_text()).values())
    for ours in (ids, text):
        assert ours["prompt tokens per key"] <= vim["prompt tokens per key"] / 10
        assert ours["keys with a suggestion"] > 0
        assert ours["answers lost"] == 0
