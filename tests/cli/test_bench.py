"""``speclsp bench PROJECT`` with the embedded model."""

import re
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from speclsp.cli import bench as bench_module
from speclsp.cli.main import cli
from speclsp.embedded import sample_project

FAST = ["--threads", "1", "--mode", "tree", "--deadline-ms", "600000"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(sample_project(), folder)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["bench", *FAST, *(str(one) for one in arguments)])


def rows(output: str) -> dict[str, list[str]]:
    found = (re.split(r"\s{2,}", line.strip()) for line in output.splitlines())
    return {cells[0]: cells[1:] for cells in found if len(cells) > 1}


@pytest.mark.real
def test_both_sides_are_asked_alike_and_timed_and_one_of_them_drafts(project):
    result = run(project, "--lines", "3", "--show-timings")
    assert result.exit_code == 0, result.output
    table = rows(result.stdout)
    off, on = table["requests"]
    assert off == on
    assert int(off) > 0
    passes_off, passes_on = (float(cell) for cell in table["tokens per pass"])
    assert passes_off == 1.0
    assert passes_on > 1.0
    assert table.keys() >= {"tokens per second", "speed-up", "acceptance rate"}
    assert table.keys() >= {"from key to suggestion, p50", "from key to suggestion, p95"}
    typing, _, step = result.stdout.splitlines()[-3:]
    assert re.fullmatch(r"Typing: .+; 19 of 20 suggestions came within \d+ ms of the key\.", typing)
    assert step.startswith("Next: `speclsp models recommend`")
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    *_, progress = result.stderr.splitlines()[:-9]
    assert progress == "3 of 3 lines typed"
    shown = [line.split("=")[0].strip() for line in result.stderr.splitlines()[-9:]]
    times = ["prompt eval time", "eval time", "total time"]
    assert shown == ["speculation off:", *times, "speculation on:", *times, "draft acceptance rate"]


@pytest.mark.real
def test_an_interrupt_shows_what_was_measured(project, monkeypatch):
    type_line = bench_module._typed
    typed: list[object] = []

    def type_one(*arguments: object) -> bench_module.Sides:
        if typed:
            raise KeyboardInterrupt
        typed.append(arguments)
        return type_line(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bench_module, "_typed", type_one)
    result = run(project, "--lines", "5")
    assert result.exit_code == 130
    assert "1 lines of project typed" in result.stdout
    assert "Interrupted." in result.stderr


@pytest.mark.real
def test_no_line_is_begun_when_the_time_is_up(project, monkeypatch):
    def type_slowly(*_arguments: object) -> bench_module.Sides:
        time.sleep(1.1)
        return {False: bench_module.Side(), True: bench_module.Side()}

    monkeypatch.setattr(bench_module, "_typed", type_slowly)
    result = run(project, "--lines", "5", "--seconds", "1")
    assert result.exit_code == 0, result.output
    assert "1 lines of project typed" in result.stdout


def test_a_folder_without_source_files_is_told(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing to type here\n" * 20)
    result = run(tmp_path)
    assert "holds no source file" in str(result.exception)
    assert "Name the folder of a project" in str(result.exception)


@pytest.mark.parametrize("name", ["typing", "quality", "make-model", "peers"])
def test_a_benchmark_that_was_moved_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["bench", name])
    assert result.exit_code == 2
    assert f"python -m benchmarks {name}" in result.output
    result = CliRunner().invoke(cli, ["bench", str(tmp_path / name)])
    assert result.exit_code == 2
    assert "there is no folder" in result.output
    assert "python -m benchmarks" not in result.output


@pytest.mark.parametrize(
    ("model", "speed_ups", "off_ms", "on_ms", "typing", "speculation", "step"),
    [
        ("embedded-target-f16.gguf", [2.0] * 9, 30, 20, "fast enough; 19 of 20", "pays", "NAME"),
        ("m.gguf", [2.0] * 9, 3000, 2000, "too slow", "pays", "a smaller model"),
        ("m.gguf", [2.0] * 9, 800, 400, "usable, with waits", "pays", "set this model"),
        ("m.gguf", [2.0, 1.8, 2.1, 1.9], 40, 20, "fast enough", "leave it on", "set this model"),
        ("m.gguf", [0.5, 0.6, 0.5, 0.6], 200, 900, "came within 200 ms", "costs time", "--no-spec"),
        ("m.gguf", [0.5, 2.0, 0.6, 1.9], 30, 20, "fast enough", "no clear", "--lines"),
        ("m.gguf", [2.0, 2.0], 30, 20, "came within 20 ms", "no clear", "--lines"),
        ("m.gguf", [], 0, 0, "fast enough", "no clear", "--lines"),
    ],
)
def test_the_verdict_follows_the_figures(
    model, speed_ups, off_ms, on_ms, typing, speculation, step
):
    verdict = bench_module._verdict(model, speed_ups, off_ms, on_ms)
    for sentence, (word, said) in zip(
        verdict,
        (("Typing: ", typing), ("Speculation: ", speculation), ("Next: ", step)),
        strict=True,
    ):
        assert sentence.startswith(word)
        assert said in sentence
        assert len(sentence) <= 80
