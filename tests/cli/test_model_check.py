"""``speclsp models check`` on real and on made models, and on what is broken."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from layer_kinds import write_layer_kind
from scripted_target import ScriptedTarget

from speclsp.backends.llama.context import LlamaTarget
from speclsp.cli import model_check
from speclsp.cli.doctor import Finding
from speclsp.cli.model_check import _Place, _rollback, check_model, verdict
from speclsp.decoding.sampling import GreedySampler, LogitRow
from speclsp.decoding.target import Logits
from speclsp.embedded import embedded_target
from speclsp.settings import Settings

pytestmark = pytest.mark.real

CHECKS = {
    "model",
    "family",
    "ends",
    "loading",
    "round trip",
    "healing",
    "rollback",
    "drafts",
    "speed",
}


def findings(path: Path) -> list[Finding]:
    return list(check_model(Settings(model=str(path), threads=1)))


def problems(found: Sequence[Finding]) -> list[str]:
    return [one.subject for one in found if one.remedy]


@pytest.mark.parametrize("kind", ["", "qwen35", "granitehybrid", "mamba", "gemma2"])
def test_a_model_that_works(kind, tmp_path):
    path = write_layer_kind(tmp_path / f"{kind}.gguf", kind) if kind else embedded_target()
    found = findings(path)
    assert {one.subject for one in found} == CHECKS
    assert problems(found) == []
    assert verdict(found) == "The model completes, takes tokens back and speculates as it should."
    texts = {one.subject: one.text for one in found}
    assert texts["family"].startswith("qwen2.5-coder, found by its tokens: <|repo_name|> = 4094")
    assert texts["healing"] == "half words are completed at 10 of 10 places"
    assert texts["drafts"].startswith("the text is the same at ")
    most = {"qwen35": "15"}.get(kind, "127")
    assert texts["rollback"].startswith(f"{most} tokens at most; logits differ by ")
    assert ("evaluated again" in texts["rollback"]) == (kind in {"granitehybrid", "mamba"})


def test_a_slow_model_is_checked_at_fewer_places():
    places: list[int] = []

    def clock() -> float:
        return 15.0 * len(places)

    settings = Settings(model=str(embedded_target()), threads=1)
    found = list(check_model(settings, lambda done, _all: places.append(done), clock))
    assert places == [0, 1, 2]
    texts = {one.subject: one.text for one in found}
    assert texts["healing"] == "half words are completed at 3 of 3 places"
    assert texts["drafts"] == "the text is the same at 3 of 3 places"
    assert problems(found) == []


def test_what_is_checked_in_any_case_is_little(monkeypatch):
    n_evaluated: list[int] = []
    seconds: list[float] = []

    def decode(self: LlamaTarget, tokens: Sequence[int], n_logits: int) -> Logits:
        n_evaluated.append(len(tokens))
        return evaluate(self, tokens, n_logits)

    def clock() -> float:
        seconds.append(20.0)
        return sum(seconds)

    evaluate = LlamaTarget.decode
    monkeypatch.setattr(LlamaTarget, "decode", decode)
    found = list(check_model(Settings(model=str(embedded_target()), threads=1), clock=clock))
    assert {one.subject for one in found} == CHECKS
    # Half a minute for Qwen2.5-Coder 1.5B on two slow cores; see _BUDGET_S.
    prompts = [n_tokens for n_tokens in n_evaluated if n_tokens > 16]
    assert sum(prompts) <= 640
    assert len(n_evaluated) - len(prompts) <= 65


class SometimesWrong(GreedySampler):
    """Takes the least probable token now and then."""

    n_sampled = 0

    def sample(self, row: LogitRow) -> int:
        SometimesWrong.n_sampled += 1
        return int(row.argmin() if SometimesWrong.n_sampled % 20 == 0 else row.argmax())


def test_a_text_that_drafts_change(monkeypatch):
    monkeypatch.setattr(model_check, "GreedySampler", SometimesWrong)
    found = findings(embedded_target())
    assert "drafts" in problems(found)
    assert "logits" in next(one.text for one in found if one.subject == "drafts")
    assert verdict(found).startswith("Not as it should be: ")


def test_a_prompt_that_does_not_spell_the_text(monkeypatch):
    monkeypatch.setattr(model_check, "prompt_text", lambda *_args: "something else")
    assert problems(findings(embedded_target())) == ["round trip"]


def test_a_rollback_that_leaves_something_behind():
    targets: list[ScriptedTarget] = []

    def predict(tokens: Sequence[int]) -> list[float]:
        best = targets[0].n_tokens_evaluated  # what was taken back still counts
        return [float(token == best % 50) for token in range(50)]

    targets.append(ScriptedTarget(predict, 50))
    prompt = _Place("a.py", "", ""), tuple(range(20))
    found = _rollback(SimpleNamespace(target=targets[0], supports_rollback=True), prompt)
    assert found.subject == "rollback"
    assert "report" in found.remedy


def test_a_model_that_rewrites_regions(tmp_path):
    path = tmp_path / "zeta-2-q4_k_m.gguf"
    shutil.copy(embedded_target(), path)
    assert problems(findings(path)) == ["family"]


def test_gaps_are_those_of_the_two_best_logits():
    sampler = model_check._Gaps()
    assert sampler.sample(np.array([1.0, 4.0, 2.5], dtype=np.float32)) == 1
    assert sampler.gaps == [1.5]
