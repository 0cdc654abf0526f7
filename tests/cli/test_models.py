"""``speclsp models``: what it names for suggestions and for next edits."""

import json

import pytest
from click.testing import CliRunner

from speclsp.backends.memory import Memory
from speclsp.cli import models as command
from speclsp.cli.main import cli
from speclsp.models import cache
from speclsp.models.choice import named


def run(*arguments: str) -> str:
    outcome = CliRunner().invoke(cli, ["models", *arguments], catch_exceptions=False)
    assert outcome.exit_code == 0
    return outcome.stdout


@pytest.mark.parametrize(
    ("gib", "line", "for_edits"),
    [
        (
            4,
            "With next edits, untried: set `model` to sweep-next-edit-1.5b-q8_0.",
            ["sweep-next-edit-1.5b-q8_0", "sweep-next-edit-1.5b-q8_0"],
        ),
        (
            12,
            (
                "With next edits, untried: set `model` to qwen2.5-coder-7b-q3_k_m and "
                "`edit_model` to zeta-2-q4_k_m."
            ),
            ["qwen2.5-coder-7b-q3_k_m", "zeta-2-q4_k_m"],
        ),
    ],
)
def test_models_for_next_edits_are_recommended_beside_the_others(gib, line, for_edits, monkeypatch):
    n_bytes = gib << 30
    memory = Memory(kind="GPU", name="a GPU", total_bytes=n_bytes, free_bytes=round(0.93 * n_bytes))
    monkeypatch.setattr(command, "find_memory", lambda: memory)
    assert run("recommend").splitlines()[-1] == line
    found = json.loads(run("recommend", "--json"))
    assert list(found["for_edits"].values()) == for_edits
    assert not found["recommended"]["edits"]


def test_without_a_gpu_no_model_is_recommended_for_next_edits(monkeypatch):
    memory = Memory(kind="CPU", name="a CPU", total_bytes=64 << 30, free_bytes=60 << 30)
    monkeypatch.setattr(command, "find_memory", lambda: memory)
    assert "next edits" not in run("recommend")
    assert json.loads(run("recommend", "--json"))["for_edits"] is None


def test_presets_whose_weights_nobody_ran_are_marked_untried():
    presets = {row["name"]: row for row in json.loads(run("list", "--json"))["presets"]}
    edits = {name for name, row in presets.items() if row["edits"]}
    assert edits == {"sweep-next-edit-1.5b-q8_0", "zeta-2-q4_k_m"}
    newer = {
        "seed-coder-8b-q4_k_m",
        "mellum2-12b-a2.5b-q4_k_m",
        "granite-4.0-1b-q4_k_m",
        "qwen3-coder-next-q4_k_xl",
    }
    assert edits | newer == {name for name, row in presets.items() if row["untried"]}


def test_what_is_partly_downloaded_is_listed_so(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    reference = named("qwen2.5-coder-0.5b-q8_0").target
    blobs = tmp_path / f"models--{reference.repository.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    with cache.partial_of(blobs / ("0" * 64), reference.file).open("wb") as partial:
        partial.truncate(310_000_000)
    assert "partly downloaded, 310 of 530 MB" in " ".join(run("list").split())


def test_a_draft_model_that_is_there_makes_no_preset_partly_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    choice = named("qwen2.5-coder-7b-q8_0-draft")
    for reference, n_bytes in ((choice.draft, 500), (choice.target, 7)):
        assert choice.received_bytes == 0
        blobs = tmp_path / f"models--{reference.repository.replace('/', '--')}" / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        cache.partial_of(blobs / ("0" * 64), reference.file).write_bytes(bytes(n_bytes))
    assert choice.received_bytes == 7
