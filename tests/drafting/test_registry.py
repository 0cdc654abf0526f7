"""Drafters by name, the project's own and other people's."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_drafters import EmptyDrafter

from speclsp.drafting.registry import drafter_names, known_names, load_drafter, load_drafters
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.errors import DrafterError
from speclsp.settings import Settings


class DraftModel(EmptyDrafter):
    name = "draft"


def offer(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a package with one drafter as if it were installed."""
    module = f"package_of_{name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    describe(folder, module, {name: f"{module}:create"})
    monkeypatch.syspath_prepend(folder)


def describe(folder: Path, package: str, drafters: dict[str, str]) -> None:
    """Write the metadata that an installer leaves behind."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = "".join(f"{name} = {value}\n" for name, value in drafters.items())
    (info / "entry_points.txt").write_text(f"[speclsp.drafters]\n{lines}", encoding="utf-8")


def test_the_default_is_suffix_matching_and_the_draft_model():
    model = DraftModel()
    drafters, problems = load_drafters(Settings(), draft_model=model)
    assert problems == []
    assert isinstance(drafters[0], SuffixDrafter)
    assert drafters[1:] == [model]


def test_without_a_draft_model_its_name_is_passed_over():
    drafters, problems = load_drafters(Settings(drafters="draft"), draft_model=None)
    assert (drafters, problems) == ([], [])


@pytest.mark.parametrize(
    ("names", "expected"),
    [("", ()), ("none", ()), (" a , b,a,", ("a", "b")), ("draft-simple,draft", ("draft",))],
)
def test_names_are_split(names, expected):
    assert drafter_names(names) == expected


def test_an_unknown_name_lists_the_known_ones_and_stops_nothing():
    settings = Settings(drafters="prompt-lokup,prompt-lookup")
    drafters, problems = load_drafters(settings, draft_model=None)
    assert [drafter.name for drafter in drafters] == ["prompt-lookup"]
    assert "'prompt-lokup'" in problems[0].message
    assert "draft, " in problems[0].remedy
    assert "prompt-lookup" in problems[0].remedy
    assert {"draft", "prompt-lookup"} <= set(known_names())


BROKEN = {
    "its import": ("import no_such_module", "ModuleNotFoundError"),
    "no factory": ("x = 1", "AttributeError"),
    "its factory": ("def create(settings): raise RuntimeError('no GPU')", "RuntimeError: no GPU"),
    "not a drafter": ("def create(settings): return 7", "lacks begin, draft, accept, name"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_package_is_a_problem_and_not_the_end(case, tmp_path, monkeypatch):
    source, message = BROKEN[case]
    # A name of its own: a module that was imported stays so.
    name = f"broken-{list(BROKEN).index(case)}"
    offer(tmp_path, name, source, monkeypatch)
    settings = Settings(drafters=f"{name},prompt-lookup")
    drafters, problems = load_drafters(settings, draft_model=None)
    assert [drafter.name for drafter in drafters] == ["prompt-lookup"]
    assert message in problems[0].message
    assert f"'{name}'" in problems[0].message


def test_our_own_error_keeps_its_remedy():
    with pytest.raises(DrafterError, match="Lower `min_ngram_size`"):
        load_drafter("prompt-lookup", Settings(min_ngram_size=9, max_ngram_size=8))


def test_two_drafters_of_one_name_do_not_mix_their_counts(tmp_path, monkeypatch):
    source = "from scripted_drafters import EmptyDrafter\ndef create(settings):\n"
    source += (
        "    drafter = EmptyDrafter()\n    drafter.name = 'prompt-lookup'\n    return drafter\n"
    )
    offer(tmp_path, "impostor", source, monkeypatch)
    settings = Settings(drafters="prompt-lookup,impostor")
    drafters, problems = load_drafters(settings, draft_model=None)
    assert len(drafters) == 1
    assert "calls itself 'prompt-lookup'" in problems[0].message
