"""``python -m benchmarks make-model``, and what tables say that were measured with its models."""

from dataclasses import replace

import pytest

from benchmarks.make_model import SmallModel
from speclsp.embedded import embedded_draft, embedded_target
from speclsp.settings import Settings
from tests.benchmarks.command_line import run

pytestmark = pytest.mark.real


def test_a_model_is_made_and_compared_and_its_tables_say_so(tmp_path):
    path = tmp_path / "deep.gguf"
    made = run(
        "make-model", "--layers", "7", "--quantise", "f16", "--compare", "2", str(path)
    )  # fmt: skip
    name = embedded_target().name
    remark = f"cost-true: the times of {name}'s shape with 7 layers in F16, the text of {name}"
    assert remark in made.output
    assert "2 of 2 greedy completions are the same to the last of 32 tokens" in made.output
    assert "T(n) as measured for n = 1, 2," in made.output
    table = run("host", "--model", str(path), "--threads", "1", "--ctx-size", "256")
    assert f"deep.gguf is {remark}" in table.output


def test_a_draft_model_gets_its_targets_vocabulary(tmp_path):
    path = tmp_path / "draft.gguf"
    draft = embedded_draft()
    made = run("make-model", "--from", str(draft), "--vocabulary", "4352", str(path))
    assert f"the times of {draft.name}'s shape with 4,352 tokens in Q8_0" in made.output
    assert SmallModel(path).shape == replace(SmallModel(draft).shape, n_vocab=4352)


def test_a_server_names_the_model_for_what_it_is(tmp_path):
    from speclsp.backends.weights import LlamaLoader

    path = tmp_path / "made.gguf"
    run("make-model", "--quantise", "q8_0", str(path))
    loader = LlamaLoader(lambda _level, _line: None)
    settings = Settings(model=str(path), threads=1, ctx_size=256)
    weights = loader.weights(
        settings, loader.tokenizer(settings), lambda _share: True, lambda _level, _line: None
    )
    weights.close()
    assert "; cost-true: the times of" in weights.description


def test_a_model_is_not_written_over_the_one_it_is_made_from(tmp_path):
    path = tmp_path / "small.gguf"
    content = embedded_target().read_bytes()
    path.write_bytes(content)
    result = run("make-model", "--from", str(path), str(tmp_path / "." / "small.gguf"), fails=True)
    assert "is the small model itself" in str(result.exception)
    assert path.read_bytes() == content


@pytest.mark.parametrize("n_bytes", [3, 20, 200_000])
def test_a_truncated_model_is_called_so(n_bytes, tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(embedded_target().read_bytes()[:n_bytes])
    result = run("make-model", "--from", str(path), str(tmp_path / "none.gguf"), fails=True)
    assert "no GGUF, or truncated or damaged" in str(result.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["cut.gguf"]
