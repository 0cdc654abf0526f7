"""``benchmarks edits``: the tree drafts more of real models' next edits than its parts alone."""

import pytest
from recorded_edits import RECORDED

from benchmarks.edits import run
from speclsp.drafting.teacher_forcing import ReplayCounts
from speclsp.embedded import embedded_draft
from speclsp.settings import Settings


def total(counts: dict[str, ReplayCounts]) -> float:
    return sum(one.n_tokens for one in counts.values()) / sum(
        one.n_passes for one in counts.values()
    )


@pytest.mark.slow
def test_region_and_suffix_draft_more_than_each_alone_and_than_a_pointer():
    report = run(
        Settings(), answers_path=RECORDED, draft_sizes=(32,), vocabulary_path=None, n_rounds=0
    )
    figures = report.figures
    assert set(figures["region + suffix, 32, GPU"]) == {
        "sweep-next-edit-0.5B", "sweep-next-edit-1.5B", "sweep-next-edit-7B", "zeta", "zeta-2",
    }  # fmt: skip
    both = total(figures["region + suffix, 32, GPU"])
    others = [total(figures[f"{name}, 32, GPU"]) for name in ("region", "suffix", "pointer")]
    assert both > max(others)
    assert both > 2.5 * total(figures["ngram-simple, 32, GPU"])
    for model, counts in figures["region + suffix, 32, GPU"].items():
        for name in ("suffix", "pointer"):
            alone = figures[f"{name}, 32, GPU"][model]
            assert counts.tokens_per_single_pass > alone.tokens_per_single_pass, (model, name)
    for model, counts in figures["region + suffix, 32, two cores"].items():
        alone = figures["suffix, 32, two cores"][model]
        assert counts.tokens_per_single_pass >= alone.tokens_per_single_pass, model


@pytest.mark.real
def test_a_model_is_made_to_say_the_answers(tmp_path):
    """Counts only: the sides say the same tokens, with fewer passes where they draft."""
    short = tmp_path / "answers.jsonl"
    lines = RECORDED.read_text(encoding="utf-8").splitlines(keepends=True)
    short.write_text("".join(sorted(lines, key=len)[:4]), encoding="utf-8")
    settings = Settings(model=str(embedded_draft()), mode="tree", threads=1)
    report = run(settings, answers_path=short, draft_sizes=(), vocabulary_path=None, n_rounds=2)
    sides = {side.name: side for side in report.figures["times"]}
    assert set(sides) == {
        "no drafts", "region + suffix", "suffix",
        "ngram-simple, as llama.cpp", "ngram-mod, as llama.cpp",
    }  # fmt: skip
    assert all(side.n_rounds == 2 for side in sides.values())
    assert sides["no drafts"].by_round["tokens_per_pass"] == [1.0, 1.0]
    assert min(sides["region + suffix"].by_round["tokens_per_pass"]) > 1.5
