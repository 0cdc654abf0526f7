"""One llama-server, asked by speclsp and by llama.vim's logic."""

import json
from pathlib import Path

import pytest
from built_llama_server import WHY_NOT, built_llama_server
from click.testing import CliRunner

from benchmarks.commands import cli

CASES = Path(__file__).parents[3] / "fixtures" / "cases" / "cases.jsonl"


@pytest.mark.real
@pytest.mark.skipif(built_llama_server() is None, reason=WHY_NOT)
def test_each_key_costs_a_tenth_of_the_prompt_tokens_and_no_answer_is_lost(tmp_path):
    figures = tmp_path / "figures.json"
    arguments = ["--llama-server", str(built_llama_server()), "--json", str(figures)]
    arguments += ["--rounds", "1", "--n-cases", "1", "--keys", "24", "--threads", "1"]
    result = CliRunner().invoke(cli, ["remote", str(CASES), *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    sides = json.loads(figures.read_text())["figures"]
    *both, vim = (side["by_round"] for side in sides)
    for ours in both:
        assert ours["evaluated"][0] <= vim["evaluated"][0] / 10
        assert ours["shown"][0] > 0
        assert ours["lost"] == [0]
