"""``speclsp ngram``: from source files to statistics files and back, with the real vocabulary."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from llama_cpp_statistics import as_counts, counted, loaded, record

from speclsp.backends.llama.vocabulary import LlamaVocabulary
from speclsp.cli import ngram as ngram_command
from speclsp.cli.main import cli
from speclsp.embedded import embedded_target
from speclsp.errors import SpecLspError
from speclsp.ngrams.files import open_statistics

WORDS = ("def", "return", "self", "value", "index", "for", "in", "range", "(", ")", ":", "=", "+")


def source(seed: int, n_lines: int) -> str:
    choose = random.Random(seed)
    return "".join(" ".join(choose.choices(WORDS, k=6)) + "\n" for _ in range(n_lines))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    for number in range(6):
        (folder / "deep" / f"m{number}.py").write_text(source(number, 20))
    (folder / "ignored.py").write_text(source(50, 20))
    (folder / ".gitignore").write_text("ignored.py\n")
    (folder / ".env").write_text("PASSWORD=hunter2\n")
    (folder / "image.py").write_bytes(b"\0\1\2")
    (folder / "empty.py").write_text("")
    return folder


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_command, "rows_in", lambda n_bytes: 500)
    monkeypatch.setenv("COLUMNS", "120")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["ngram", *map(str, arguments)], catch_exceptions=False)


def expected_counts(
    project: Path, vocabulary: LlamaVocabulary, orders: Sequence[int]
) -> dict[tuple[int, ...], dict[int, int]]:
    total: dict[tuple[int, ...], dict[int, int]] = {}
    for path in [*sorted((project / "deep").iterdir()), project / ".gitignore"]:
        tokens = vocabulary.tokenize(path.read_text()).tolist()
        for ngram, followers in counted(tokens, orders).items():
            into = total.setdefault(ngram, {})
            for token, count in followers.items():
                into[token] = into.get(token, 0) + count
    return total


def test_build_counts_what_may_be_indexed(project, tmp_path, vocabulary):
    output = tmp_path / "f.ngrams"
    result = run("build", project, "-o", output, "--processes", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("7 files, ")
    assert f"{output}: " in result.stdout
    found = as_counts(open_statistics(output, vocabulary).tables)
    assert found == expected_counts(project, vocabulary, range(1, 5))


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [((), True), (("--model", "embedded"), False), (("--model", "TARGET"), False)],
)
def test_tokens_of_the_trial_model_are_told_unless_it_is_named(
    project, tmp_path, arguments, is_told
):
    arguments = tuple(str(embedded_target()) if a == "TARGET" else a for a in arguments)
    file = tmp_path / "f"
    build = ("build", project, "-o", file, "--processes", "1")
    for command in (build, ("evaluate", file, project, "--tokens", "9")):
        stderr = run(*command, *arguments).stderr
        assert ("tokens are those of the trial model" in stderr) == is_told
        assert ("--model" in stderr) == is_told


@pytest.mark.parametrize("command", ["build", "evaluate", "merge", "info", "verify", "convert"])
def test_every_command_takes_models_by_name(project, tmp_path, command):
    file = tmp_path / "f"
    run("build", project, "-o", file, "--processes", "1")
    output = ("-o", tmp_path / "g") if command in ("build", "merge", "convert") else ()
    paths = {"build": (project,), "evaluate": (file, project)}.get(command, (file,))
    with pytest.raises(SpecLspError, match="speclsp models pull nobody/none"):
        run(command, *paths, *output, "-hf", "nobody/none")
    with pytest.raises(SpecLspError, match=r"Did you mean qwen2\.5-coder-7b-q8_0"):
        run(command, *paths, *output, "--model", "qwen2.5-codr-7b")


def test_parts_merge_to_the_file_of_one_run(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.py").write_text(source(7, 30))
    for layout in ("speclsp", "llama.cpp"):
        more = ("--processes", "1", "--format", layout)
        run("build", project, "-o", tmp_path / "a", *more)
        run("build", other, "-o", tmp_path / "b", *more)
        run("build", other, project, project, "-o", tmp_path / "both", *more)
        result = run("merge", tmp_path / "b", tmp_path / "a", "-o", tmp_path / "merged")
        assert result.exit_code == 0
        assert (tmp_path / "merged").read_bytes() == (tmp_path / "both").read_bytes()


@pytest.mark.parametrize(("order", "orders"), [(1, [1]), (2, [2]), (3, [1, 2, 3])])
def test_llama_cpps_format(project, tmp_path, vocabulary, order, orders):
    output = tmp_path / "f.bin"
    more = ("--order", str(order), "--format", "llama.cpp", "--processes", "1")
    result = run("build", project, "-o", output, *more)
    assert loaded(output.read_bytes()) == expected_counts(project, vocabulary, orders)
    assert ("static" if order == 2 else "dynamic") in result.stdout


def test_longer_ngrams_in_ours_only(project, tmp_path):
    output = tmp_path / "f"
    refused = run("build", project, "-o", output, "--order", "5", "--format", "llama.cpp")
    assert refused.exit_code == 2
    assert "room for n-grams of 4 tokens" in refused.stderr
    run("build", project, "-o", output, "--order", "6", "--processes", "1")
    assert open_statistics(output, None).tables.max_order == 6
    with pytest.raises(SpecLspError, match="not for n-grams of 6"):
        run("convert", output, "-o", tmp_path / "g", "--format", "llama.cpp")
    short = ("--format", "llama.cpp", "--order")
    run("convert", output, "-o", tmp_path / "g", *short, "4")
    run("build", project, "-o", tmp_path / "h", *short, "4", "--processes", "1")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "h").read_bytes()


def test_convert_there_and_back(project, tmp_path):
    one, two, three = tmp_path / "one", tmp_path / "two", tmp_path / "three"
    run("build", project, "-o", one, "--processes", "1")
    run("convert", one, "-o", two)
    assert open_statistics(two, None).layout == "llama.cpp"
    with pytest.raises(SpecLspError, match="--model"):
        run("convert", two, "-o", three)
    assert not three.exists()
    run("convert", two, "-o", three, "--model", "embedded")
    assert three.read_bytes() == one.read_bytes()
    run("convert", one, "-o", three, "--format", "speclsp")
    assert three.read_bytes() == one.read_bytes()
    run("convert", one, "-o", three, "--format", "llama.cpp", "--order", "2")
    assert open_statistics(three, None, "static").role == "static"


def test_files_of_two_vocabularies_do_not_merge(project, tmp_path, model_folder):
    (tmp_path / "big.bin").write_bytes(record([1, 5_000_000], {2: 1}))
    run("build", project, "-o", tmp_path / "a", "--processes", "1")
    with pytest.raises(SpecLspError, match="byte 4: token 5000000 is not in a vocabulary of 4,0"):
        run("merge", tmp_path / "big.bin", tmp_path / "a", "-o", tmp_path / "b")


def test_info(project, tmp_path):
    run("build", project, "-o", tmp_path / "a", "--processes", "1")
    (tmp_path / "b").write_bytes(record([1, 2], {3: 4, 5: 6}) + record([7, 8], {3: 1}))
    result = run("info", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert any(line.startswith(str(tmp_path / "a")) and "of 4,096 tokens" in line for line in lines)
    assert f"{tmp_path / 'b'}: 64 bytes, llama.cpp's format, static, vocabulary not named" in lines
    assert lines[-2].split() == ["2", "2", "3", "11"]


def test_verify_names_what_is_wrong(project, tmp_path):
    good, bad, worse = tmp_path / "good", tmp_path / "bad", tmp_path / "worse"
    run("build", project, "-o", good, "--processes", "1")
    data = bytearray(good.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)
    worse.write_bytes(record([1, 2], {3: 4})[:-2])
    result = run("verify", bad, good, worse)
    assert result.exit_code == 1
    assert result.stdout == f"{good}: fine.\n"
    assert f"Problem: {bad}: the file is cut or damaged" in result.stderr
    assert f"Problem: {worse}, byte 0: the file is truncated" in result.stderr
    assert run("verify", good, "--model", "embedded").exit_code == 0


def test_evaluate_shows_what_the_file_adds(project, tmp_path):
    held_out = tmp_path / "held_out"
    held_out.mkdir()
    text = (project / "deep" / "m1.py").read_text()
    (held_out / "new.py").write_text("import this\n" + text)
    run("build", project, "-o", tmp_path / "f", "--processes", "1")
    result = run("evaluate", tmp_path / "f", held_out, "--tokens", "400")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if "the text so far" in line]
    (without,) = rows
    (with_file,) = [line.split() for line in result.stdout.splitlines() if "dynamic" in line]
    n_tokens, per_pass = without[4], float(without[5])
    assert with_file[4] == n_tokens
    assert float(with_file[5]) > per_pass >= 1.0


@pytest.mark.parametrize("name", ["pipe", "loop"])
def test_an_output_that_is_no_regular_file(project, tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SpecLspError, match="is not a regular file"):
        run("build", project, "-o", tmp_path / name, "--processes", "1")
    assert {path.name for path in tmp_path.iterdir()} == {"loop", "pipe", "project"}


def test_nothing_to_count(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecLspError, match="nothing to count"):
        run("build", tmp_path / "empty", "-o", tmp_path / "f")
    assert not (tmp_path / "f").exists()
    (tmp_path / "s").write_bytes(record([1, 2], {3: 4}))
    with pytest.raises(SpecLspError, match="has no source files"):
        run("evaluate", tmp_path / "s", tmp_path / "empty")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecLspError, match=r"none\.bin cannot be read"):
        run("info", tmp_path / "none.bin")
    assert not list(tmp_path.iterdir())


def test_a_folder_to_build_from_that_is_not_there(tmp_path):
    result = run("build", tmp_path / "none", "-o", tmp_path / "file")
    assert result.exit_code == 2
    assert "does not exist" in result.output


@pytest.mark.slow
def test_no_file_without_ngrams_is_written(project, tmp_path):
    static, empty = tmp_path / "static", tmp_path / "empty"
    options = ("--format", "llama.cpp", "--order")
    built = run("build", project, "-o", static, *options, "2", "--processes", "1")
    assert built.exit_code == 0
    with pytest.raises(SpecLspError, match="no n-grams that --order 1 keeps"):
        run("convert", static, "-o", empty, *options, "1")
    assert not empty.exists()


@pytest.mark.slow
def test_evaluate_goes_through_as_many_tokens_as_it_is_told(project, tmp_path):
    # Short files, so that their ends are most of what is gone through.
    file = tmp_path / "file"
    assert run("build", project, "-o", file, "--processes", "1").exit_code == 0
    result = run("evaluate", file, project, "--tokens", "600")
    (n_tokens,) = {line.split()[4] for line in result.output.splitlines() if "text so far" in line}
    assert 600 <= int(n_tokens) < 1200
