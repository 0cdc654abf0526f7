"""The table of settings: spellings, types, layers, languages."""

import dataclasses
import random

import msgspec
import pytest

from speclsp import settings
from speclsp.errors import SettingsError
from speclsp.settings import Settings
from speclsp.settings_resolution import SHARED, canonical_name, convert, for_language, resolve


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("n_gpu_layers", "n_gpu_layers"),
        ("n-gpu-layers", "n_gpu_layers"),
        ("nGpuLayers", "n_gpu_layers"),
        ("gpu-layers", "n_gpu_layers"),
        ("draft-max", "draft_max"),
        ("draft", "draft_max"),
        ("draftMin", "draft_min"),
        ("draft-p-min", "spec_draft_p_min"),
        ("draft-model", "spec_draft_model"),
        ("spec-ngram-size-n", "spec_ngram_size_n"),
        ("device_draft", "spec_draft_device"),
        ("nonsense", None),
    ],
)
def test_every_spelling_of_a_name_means_the_same_setting(spelling, name):
    assert canonical_name(spelling) == name


def test_no_two_settings_share_a_spelling():
    seen: dict[str, str] = {}
    for name in settings.FIELDS:
        for spelling in (name, *settings.info(name).aliases):
            key = spelling.replace("_", "").replace("-", "").lower()
            assert seen.setdefault(key, name) == name, spelling
    shorts = [settings.info(n).short for n in settings.FIELDS if settings.info(n).short]
    assert len(shorts) == len(set(shorts))


def test_every_setting_says_what_it_is():
    for name in settings.FIELDS:
        row = settings.info(name)
        assert row.help.endswith((".", ")")), name
        assert row.group
        assert convert(name, settings.default(name)) == settings.default(name)


def test_later_layers_win_and_none_means_not_set():
    resolved = resolve([{"nPredict": 10, "topK": 5}, {"n_predict": 20, "top_k": None}])
    assert resolved.problems == ()
    assert (resolved.settings.n_predict, resolved.settings.top_k) == (20, 5)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_predict", "many", ["n_predict", "`int`", "'many'", "128"]),
        ("n_predict", 0, ["n_predict", ">= 1"]),
        ("n_predict", True, ["n_predict", "`int`", "`bool`"]),
        ("top_p", 1.5, ["top_p", "<= 1"]),
        ("multiline", "sometimes", ["multiline", "sometimes"]),
        ("cache_type_k", "q9", ["cache_type_k", "one of f32, f16, bf16, q8_0", "'q9'"]),
        ("n_gpu_layers", "many", ["a number or one of auto, all, got 'many'"]),
        ("n_gpu_layers", 2**40, ["<= 2147483647"]),
        ("mode", 3, ["expected one of auto, tree, chain, first", "3"]),
        ("exclude", "*.py", ["exclude", "`array`"]),
        ("threads", 100_000, ["threads", "<= 512"]),
        ("threads_batch", 5_000, ["threads_batch", "<= 512"]),
        ("spec_draft_threads", 513, ["spec_draft_threads", "<= 512"]),
        ("n_cpu_moe", 2**31, ["n_cpu_moe", "<= 1024"]),
        ("deadline_ms", 2**40, ["deadline_ms", "<= 2147483647"]),
        ("languages", {"python": 3}, ["languages"]),
        ("temperature", float("inf"), ["temperature", "a finite number, got inf", "0.0"]),
        ("model", "a\0b", ["model", "without NUL"]),
        ("lookup_cache_dynamic", ["a", "a\0b"], ["lookup_cache_dynamic", "without NUL"]),
    ],
)
def test_a_wrong_value_is_named_with_the_default_and_left_out(name, value, words):
    resolved = resolve([{name: value}])
    assert resolved.settings == Settings()
    (problem,) = resolved.problems
    assert problem.name == name
    for word in words:
        assert word in problem.message


@pytest.mark.parametrize("name", ["engine_url", "engine_key_file"])
@pytest.mark.parametrize("value", [["hidden"], {"hidden": 1}, "hidden\0", "hidden\ud800"])
def test_a_wrong_value_that_may_be_secret_is_not_shown(name, value):
    (problem,) = resolve([{name: value}]).problems
    assert f"setting {name}: " in problem.message
    assert "expected" in problem.message.lower()
    assert "hidden" not in problem.message


def test_a_bad_value_keeps_the_value_from_before():
    before = Settings(n_predict=7)
    assert resolve([{"n_predict": -1}], base=before).settings.n_predict == 7


def test_text_values_as_a_command_line_gives_them():
    assert convert("n_predict", "12", from_text=True) == 12
    assert convert("n_gpu_layers", "all", from_text=True) == "all"
    assert convert("n_gpu_layers", "3", from_text=True) == 3
    assert convert("kv_offload", "false", from_text=True) is False
    with pytest.raises(SettingsError, match="temperature"):
        convert("temperature", "warm", from_text=True)


def test_a_language_overrides_what_it_may():
    resolved = resolve(
        [{"languages": {"markdown": {"enabled": False, "nPredict": 5, "model": "x", "top_p": 9}}}]
    )
    assert [p.name for p in resolved.problems] == [
        "languages.markdown.model",
        "languages.markdown.top_p",
    ]
    markdown = for_language(resolved.settings, "markdown")
    assert (markdown.enabled, markdown.n_predict, markdown.model) == (False, 5, "")
    assert for_language(resolved.settings, "python") == resolved.settings


def test_changed_names_what_differs():
    assert settings.changed(Settings(), Settings(n_predict=5, seed=3)) == ("n_predict", "seed")


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("hfRepo", "set model"),
        ("override-tensor-draft", "spec_draft_ngl"),
        ("otd", "spec_draft_ngl"),
        ("spec_ngram_mod_n_max", "draft_max"),
        ("parallel", "parallel is not needed: "),
        ("host", "host is not needed: "),
        ("draftMx", "unknown setting 'draftMx'. Did you mean draft_max?"),
        ("n_predikt", "unknown setting 'n_predikt'. Did you mean n_predict?"),
    ],
)
def test_a_name_that_is_no_setting_says_what_to_set_instead(spelling, words):
    for given in ({spelling: 16}, {"languages": {"python": {spelling: 16}}}):
        (problem,) = resolve([given]).problems
        assert words in problem.message


def test_an_unknown_name_that_is_like_no_other_is_reported():
    (problem,) = resolve([{"zzz": 16}]).problems
    assert problem.message == "unknown setting 'zzz'."


def shared(**given: int) -> dict[str, int]:
    """The settings that change where some are given, but for those that are given."""
    resolved = resolve([given])
    assert resolved.problems == ()
    found = resolved.settings
    names = settings.changed(Settings(), found)
    return {name: getattr(found, name) for name in names if name not in given}


def test_a_shared_setting_holds_for_each_drafter_whose_own_is_not_given():
    assert shared(draft_max=9, spec_draft_n_max=3) == {}
    assert shared(draft_max=64) == {"spec_draft_n_max": 64, "max_draft": 64}
    assert shared(draft_min=5) == {"spec_draft_n_min": 5, "spec_draft_n_max": 5}
    assert shared(spec_ngram_size_n=2, spec_ngram_mod_n_match=24) == {"max_ngram_size": 2}
    assert shared(spec_ngram_size_m=5) == {"num_pred_tokens": 5}
    assert shared(spec_ngram_min_hits=2) == {}


def test_a_shared_size_that_is_given_holds_though_it_is_the_default():
    sizes = {"spec_ngram_mod_n_match": 12, "max_ngram_size": 12}
    assert shared(spec_ngram_size_n=12) == sizes


def test_draft_max_is_a_maximum_and_changes_no_size_of_an_ngram_drafter():
    assert not {name for name in shared(draft_max=4) if "size" in name}


def test_a_bound_moves_the_other_one_if_that_is_not_given():
    assert shared(spec_draft_n_min=5) == {"spec_draft_n_max": 5}
    assert shared(spec_draft_n_min=5, spec_draft_n_max=3) == {}


def test_a_shared_setting_may_stand_in_another_layer_than_a_drafters_own():
    resolved = resolve([{"spec_draft_n_max": 7}, {"draft": 2}]).settings
    assert (resolved.spec_draft_n_max, resolved.draft_max) == (7, 2)


WILD = (
    None, True, False, 0, -1, 2**31, -(2**63), 2**100, 1.5, float("nan"), float("inf"), "", "x",
    "\ud800", "auto", "-1", "a" * 100_000, [], [None], ["x", 3], [["x"]], {}, {"": None},
    {"python": 3}, {"python": {"n_predict": "x", "nothing": [], "top_p": 2}}, {"x": {"x": {}}},
)  # fmt: skip


def test_whatever_a_client_sends_gives_valid_settings_or_a_problem_with_the_default():
    dice = random.Random(1)
    # `draft_max` 0 sets each drafter's own maximum to 0, which by itself is no value of it.
    shared = {name for names in SHARED.values() for name in names}
    spellings = [*settings.FIELDS, *map(str.upper, settings.FIELDS), "np", "x", "", "\ud800", "é"]
    for _ in range(2000):
        layer = {dice.choice(spellings): dice.choice(WILD) for _ in range(dice.randrange(1, 6))}
        resolved = resolve([layer])
        assert all(problem.message for problem in resolved.problems), layer
        values = dataclasses.asdict(resolved.settings)
        for name, value in values.items():
            if name not in shared:
                assert msgspec.convert(value, settings.TYPES[name]) == value, (name, layer)
        assert len(resolved.problems) <= 8 * len(layer)


def test_options_of_drafters_are_set_by_drafter_and_name():
    given = {
        "drafterOptions": {
            "prompt-lookup": {"max_ngram_size": 8, "numPredTokens": 2},
            "draft": {"p_min": 0.5},
            "theirs": {"any": ["thing"]},
        }
    }
    resolution = resolve([given])
    assert not resolution.problems
    found = resolution.settings
    assert (found.max_ngram_size, found.num_pred_tokens) == (8, 2)
    assert found.spec_draft_p_min == 0.5
    # Other packages' drafters read theirs as they are.
    assert found.drafter_options == {"theirs": {"any": ["thing"]}}


def test_a_later_layer_and_an_option_of_its_own_name_take_precedence():
    below = {"drafter_options": {"draft": {"n_max": 8, "n_min": 4}}}
    found = resolve([below, {"drafter_options": {"draft": {"n_max": 9}}}]).settings
    assert (found.spec_draft_n_max, found.spec_draft_n_min) == (9, 4)
    assert resolve([below | {"spec_draft_n_max": 7}]).settings.spec_draft_n_max == 7


@pytest.mark.parametrize(
    ("options", "where", "words"),
    [
        ({"prompt-lookup": {"size": 8}}, "prompt-lookup.size", "has max_ngram_size"),
        ({"ngram-simple": {"size_n": 8}}, "ngram-simple.size_n", "set spec_ngram_size_n"),
        ({"ngram-simple": {"length": 8}}, "ngram-simple.length", "has none"),
        ({"ngram-mod": {"n_match": 0}}, "ngram-mod.n_match", ">= 1"),
        ({"ngram-cache": {"n_max": 9}}, "ngram-cache.n_max", "set draft_max"),
        ({"draft": {"n_max": "many"}}, "draft.n_max", "`int`"),
        ({"draft": {"device": "CUDA0"}}, "draft.device", "has n_max, n_min, p_min"),
    ],
)
def test_a_wrong_option_of_a_drafter_is_named_and_the_others_stay(options, where, words):
    given = {"drafter_options": {**options, "theirs": {"n": 32}}}
    (problem,) = resolve([given]).problems
    assert problem.name == f"drafter_options.{where}"
    assert problem.name in problem.message
    assert words in problem.message
    assert resolve([given]).settings.drafter_options == {"theirs": {"n": 32}}
