"""Drafters by name, the project's own and other people's."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scripted_drafters import EmptyDrafter, ScriptedDrafter

from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import VerifyCurve
from speclsp.drafting.drafter import Draft, DraftContext
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.registry import (
    draft_limits,
    drafter_names,
    known_names,
    load_drafter,
    load_drafters,
    most_verified,
    unread_settings,
)
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.errors import DrafterError
from speclsp.settings import Settings
from speclsp.settings_resolution import resolve


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


def test_the_default_is_suffix_matching_the_ngram_cache_and_the_draft_model():
    model = DraftModel()
    drafters, problems = load_drafters(Settings(), draft_model=model)
    assert problems == []
    assert isinstance(drafters[0], SuffixDrafter)
    assert [drafter.name for drafter in drafters] == ["suffix", "ngram-cache", "draft"]
    assert drafters[2] is model


def test_without_a_draft_model_its_name_is_passed_over():
    drafters, problems = load_drafters(Settings(drafters="draft"), draft_model=None)
    assert (drafters, problems) == ([], [])


def test_a_draft_model_joins_whatever_is_named():
    model = DraftModel()
    for names, expected in (
        ("ngram-simple,ngram-mod", ["ngram-simple", "ngram-mod", "draft"]),
        # The model comes last wherever it is named, as in llama-server.
        ("draft-simple,ngram_mod", ["ngram-mod", "draft"]),
        ("none", ["draft"]),
    ):
        drafters, problems = load_drafters(Settings(drafters=names), draft_model=model)
        assert [drafter.name for drafter in drafters] == expected
        assert problems == []


def unread(running: tuple[str, ...], **given: object) -> list[str]:
    resolved = resolve([given])
    assert resolved.problems == ()
    return [str(problem) for problem in unread_settings(resolved.settings, running)]


@pytest.mark.parametrize(
    ("drafter", "given"),
    [
        (
            "ngram-map-k",
            {"spec_ngram_size_n": 12, "spec_ngram_size_m": 48, "spec_ngram_min_hits": 1},
        ),
        (
            "ngram-map-k4v",
            {"spec_ngram_size_n": 8, "spec_ngram_size_m": 8, "spec_ngram_min_hits": 2},
        ),
        ("ngram-mod", {"spec_ngram_size_n": 24}),
        ("ngram-simple", {}),
    ],
)
def test_nothing_is_said_of_the_options_in_llama_servers_documents(
    drafter: str, given: dict[str, object]
) -> None:
    # Some are defaults here, and set other drafters' sizes all the same.
    assert unread((drafter,), drafters=drafter, draft_max=64, **given) == []


@pytest.mark.parametrize(
    ("running", "given", "words"),
    [
        (
            ("suffix",),
            {"spec_ngram_mod_n_match": 8},
            ["drafter_options.ngram-mod.n_match", "`ngram-mod`"],
        ),
        (("suffix",), {"spec_ngram_size_n": 8}, ["spec_ngram_size_n", "`ngram-simple`"]),
        (("suffix",), {"spec_ngram_min_hits": 2}, ["spec_ngram_min_hits", "`ngram-map-k4v`"]),
        (("suffix",), {"spec_draft_n_max": 8}, ["drafter_options.draft.n_max", "`-md`"]),
        ((), {"draft_max": 8, "drafters": "none"}, ["draft_max", "'none'", "`suffix`"]),
        (
            ("ngram-mod",),
            {"drafters": "ngram-mod", "mode": "first", "max_draft": 8},
            ["max_draft", "`mode`"],
        ),
        (("suffix",), {"mode": "chain", "p_split": 0.1}, ["p_split", "`mode`", "`tree`"]),
        (("ngram-simple",), {"spec_ngram_size_m": 60}, ["size_m = 60", "`max_draft`"]),
        (
            ("ngram-mod",),
            {"drafters": "ngram-mod", "spec_ngram_size_n": 8, "spec_ngram_mod_n_match": 4},
            ["spec_ngram_size_n", "`ngram-map-k`"],
        ),
        (
            ("draft",),
            {"drafters": "draft", "draft_max": 3, "spec_draft_n_max": 5},
            ["draft_max", "`suffix`"],
        ),
        (("suffix",), {"draft_max": 0}, ["by ngram-cache, suffix: draft_max is 0"]),
        (
            ("draft", "suffix"),
            {"spec_draft_n_max": 0},
            ["by draft: drafter_options.draft.n_max is 0"],
        ),
        (("suffix",), {"draft_max": 200}, ["draft_max = 200: a pass verifies 96 draft tokens"]),
        (("ngram-simple",), {"mode": "first", "spec_ngram_size_m": 99}, ["size_m = 99", "96"]),
        (("suffix",), {"draft_min": 2}, ["draft_min = 2", "`mode` auto", "`first`"]),
        (("ngram-mod",), {"draft_min": 32}, ["draft_min = 32", "pays", "`first`"]),
        (
            ("suffix",),
            {"draft_min": 20, "draft_max": 10, "mode": "first"},
            ["draft_min = 20 is above draft_max = 10", "Lower `draft_min` or raise `draft_max`"],
        ),
        (("ngram-cache",), {"lookup_cache_update": "accepted"}, ["lookup_cache_update", "`-lcd`"]),
        (
            ("suffix",),
            {"drafter_options": {"ngram-sample": {"size_n": 8}}},
            ["drafter_options.ngram-sample", "no such drafter", "ngram-simple"],
        ),
        (
            ("draft",),
            {"spec_draft_n_min": 5, "spec_draft_n_max": 3, "mode": "first"},
            ["draft.n_min (5)", "draft.n_max (3)", "raise `n_max`"],
        ),
    ],
)
def test_a_setting_that_nothing_reads_names_the_one_that_would_change_something(
    running, given, words
):
    (problem,) = unread(running, **given)
    for word in words:
        assert word in problem


@pytest.mark.parametrize(
    ("running", "given"),
    [
        (("suffix",), {}),
        (("suffix",), {"draft_max": 5}),
        (("suffix",), {"draft_max": 40, "draft_min": 2, "mode": "first"}),
        (("suffix",), {"mode": "first", "draft_max": 40}),
        (("suffix",), {"mode": "first", "max_draft": 5}),
        (("ngram-mod",), {"mode": "first", "spec_ngram_size_n": 8, "draft_min": 4}),
        (("ngram-mod",), {"spec_ngram_size_n": 8, "draft_max": 32}),
        (("ngram-mod",), {"draft_max": 12, "draft_min": 0}),
        (("ngram-mod",), {"draft_max": 12}),
        (("ngram-mod",), {"mode": "first", "draft_min": 32}),
        (("draft",), {"mode": "first", "draft_min": 5, "spec_draft_n_max": 4}),
        (("prompt-lookup",), {"drafters": "prompt-lookup", "max_ngram_size": 2}),
        (("ngram-cache", "suffix"), {"draft_max": 3}),
        # What cannot run is told by itself.
        ((), {"drafters": "prompt-lookup", "max_ngram_size": 2}),
        ((), {"drafters": "prompt-lookup", "draft_max": 2}),
        ((), {"drafters": "suffix", "spec_draft_model": "none.gguf", "spec_draft_p_min": 0.5}),
        (("draft",), {"spec_draft_n_max": 8, "spec_draft_p_min": 0.5}),
        (("suffix", "ngram-cache"), {"lookup_cache_static": ["a"], "draft_max": 4}),
    ],
)
def test_a_setting_that_is_read_is_no_problem(running, given):
    assert unread(running, **given) == []


def proposed(settings: Settings, drafter: object, *, mode: str) -> list[int]:
    """Return the draft tokens of one drafter by the limits that all share."""
    limits = partial(draft_limits, settings)
    proposer = (
        DraftMerger([drafter], limits=limits)
        if mode == "first"
        else DraftMerger(
            [drafter], AcceptanceTable(), mode="tree", p_split=0.0, n_max=64, limits=limits
        )
    )
    repeated = np.tile(np.arange(9, dtype=np.int32), 9)
    proposer.begin(
        DraftContext(prompt=(0,), prefix=repeated, verify_curve=VerifyCurve((1,), (1.0,)))
    )
    return list(proposer.propose([], 64).tokens)


N_MOST = {"prompt-lookup": 10}


@pytest.mark.parametrize("mode", ["first", "tree"])
@pytest.mark.parametrize(
    "name", ["suffix", "prompt-lookup", "ngram-cache", "ngram-simple", "ngram-map-k", "ngram-mod"]
)
def test_the_shared_limits_hold_for_every_drafter(name, mode):
    def drafted(**given):
        settings = resolve([{"drafters": name, "spec_ngram_size_n": 8, **given}]).settings
        return len(proposed(settings, load_drafter(name, settings), mode=mode))

    assert drafted(draft_max=5) == 5
    assert drafted(draft_max=20, draft_min=20) == min(20, N_MOST.get(name, 20))
    assert drafted(draft_max=5, draft_min=20) == 5
    assert drafted(draft_min=50) > 0
    assert drafted(draft_max=0) == 0


def test_a_pass_verifies_the_least_draft_of_a_running_draft_model():
    settings = resolve([{"draft_min": 40}]).settings
    assert most_verified(settings, {"draft"}) == 40
    assert most_verified(settings, {"suffix"}) == settings.max_draft


@pytest.mark.parametrize("mode", ["first", "tree"])
def test_the_shared_limits_hold_for_drafters_of_other_packages(mode):
    three = Draft((1, 2, 3))

    def drafted(**given):
        scripted = ScriptedDrafter([three])
        return len(proposed(resolve([given]).settings, scripted, mode=mode))

    assert drafted() == drafted(draft_min=3) == 3
    assert drafted(draft_min=4) == 0
    assert drafted(draft_max=2) == 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ()),
        ("none", ()),
        (" a , b,a,", ("a", "b")),
        ("draft-simple,draft", ("draft",)),
        # As llama.cpp's log spells them; other packages' names stay.
        ("ngram_simple,ngram_mod,draft_simple", ("ngram-simple", "ngram-mod", "draft")),
        ("ngram_map_k,ngram_map_k4v,a_b", ("ngram-map-k", "ngram-map-k4v", "a_b")),
        ("ngram_cache,ngram-cache", ("ngram-cache",)),
    ],
)
def test_names_are_split(names, expected):
    assert drafter_names(names) == expected


def test_an_unknown_name_lists_the_known_ones_and_stops_nothing():
    settings = Settings(drafters="prompt-lokup,prompt-lookup")
    drafters, problems = load_drafters(settings, draft_model=None)
    assert [drafter.name for drafter in drafters] == ["prompt-lookup"]
    assert "'prompt-lokup'" in problems[0].message
    assert problems[0].remedy.startswith("Write `prompt-lookup` in `drafters`")
    assert "known are draft, " in problems[0].remedy
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


def test_our_own_error_keeps_its_remedy(tmp_path, monkeypatch):
    source = "from speclsp.errors import DrafterError\ndef create(settings):\n"
    source += "    raise DrafterError('no.', remedy='Lower it.')\n"
    offer(tmp_path, "refusing", source, monkeypatch)
    with pytest.raises(DrafterError, match="Lower it"):
        load_drafter("refusing", Settings())


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
