"""From settings to parameters: what follows what."""

import pytest

from speclsp.backends.params import (
    check_params,
    device_names,
    draft_settings,
    n_threads,
    tensor_placements,
    tensor_split,
    thread_count,
)
from speclsp.cores import physical_cpu_count
from speclsp.errors import SettingsError
from speclsp.settings import Settings

N_CORES = physical_cpu_count()
LARGE = 1 << 40
"""Bytes of weights that all cores help with."""
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@pytest.mark.parametrize(
    ("changes", "target", "draft"),
    [
        ({}, (N_CORES, N_CORES), (N_CORES, N_CORES)),
        ({"threads": 3}, (3, 3), (3, 3)),
        ({"threads": 3, "threads_batch": 5}, (3, 5), (3, 5)),
        ({"threads": 3, "spec_draft_threads": 1}, (3, 3), (1, 1)),
        (
            {"threads": 8, "spec_draft_threads": 4, "threads_batch": 16}
            | {"spec_draft_threads_batch": 2},
            (8, 16),
            (4, 2),
        ),
        ({"threads": 3, "spec_draft_threads_batch": 2}, (3, 3), (3, 2)),
        ({"threads": 0}, (N_CORES, N_CORES), (N_CORES, N_CORES)),
    ],
)
def test_threads_follow(changes, target, draft):
    settings = Settings(**changes)
    assert n_threads(settings, LARGE) == target
    assert n_threads(draft_settings(settings, 1000), LARGE) == draft


@pytest.mark.parametrize(
    ("changes", "target", "draft"),
    [
        ({}, None, None),
        ({"device": "none"}, (), ()),
        ({"device": "CUDA0, CUDA1"}, ("CUDA0", "CUDA1"), ("CUDA0", "CUDA1")),
        ({"device": "CUDA0", "spec_draft_device": "CUDA1"}, ("CUDA0",), ("CUDA1",)),
        ({"device": "CUDA0", "spec_draft_device": "none"}, ("CUDA0",), ()),
    ],
)
def test_devices_follow(changes, target, draft):
    settings = Settings(**changes)
    assert device_names(settings) == target
    assert device_names(draft_settings(settings, 1000)) == draft


def test_the_draft_model_s_own_settings_reach_it():
    settings = Settings(
        n_gpu_layers=7,
        ctx_size=4096,
        batch_size=128,
        ubatch_size=256,
        cache_type_k="q8_0",
        cpu_moe=True,
        flash_attn="on",
        spec_draft_ngl="all",
    )
    of_draft = draft_settings(settings, 2048)
    assert (of_draft.n_gpu_layers, of_draft.ctx_size) == ("all", 2048)
    assert (of_draft.batch_size, of_draft.ubatch_size) == (128, 256)
    assert (of_draft.cache_type_k, of_draft.cache_type_v) == ("f16", "f16")
    assert of_draft.flash_attn == "on"
    assert not of_draft.speculation
    assert tensor_placements(settings) == ((EXPERTS, "CPU"),)
    assert tensor_placements(of_draft) == ()


def test_the_draft_model_has_its_own_context_cache_types_and_experts():
    of_draft = draft_settings(
        Settings(
            cpu_moe=True,
            n_cpu_ffn=3,
            spec_draft_ctx_size=1024,
            spec_draft_type_k="q8_0",
            spec_draft_type_v="q4_0",
            spec_draft_n_cpu_moe=1,
        ),
        4096,
    )
    assert of_draft.ctx_size == 1024
    assert (of_draft.cache_type_k, of_draft.cache_type_v) == ("q8_0", "q4_0")
    assert tensor_placements(of_draft) == ((rf"blk\.0{EXPERTS}", "CPU"),)
    whole = draft_settings(Settings(spec_draft_cpu_moe=True), 4096)
    assert tensor_placements(whole) == ((EXPERTS, "CPU"),)


@pytest.mark.parametrize(
    ("changes", "placements"),
    [
        ({}, ()),
        ({"override_tensor": r"blk\.1.*=CPU"}, ((r"blk\.1.*", "CPU"),)),
        ({"override_tensor": "a=CPU,b=CUDA0,"}, (("a", "CPU"), ("b", "CUDA0"))),
        ({"cpu_moe": True}, ((EXPERTS, "CPU"),)),
        ({"n_cpu_moe": 2}, ((rf"blk\.0{EXPERTS}", "CPU"), (rf"blk\.1{EXPERTS}", "CPU"))),
        ({"n_cpu_ffn": 1}, ((r"blk\.0\.ffn_(up|down|gate|gate_up)\.", "CPU"),)),
        ({"override_tensor": "a=CUDA0", "cpu_moe": True}, (("a", "CUDA0"), (EXPERTS, "CPU"))),
    ],
)
def test_tensor_placements(changes, placements):
    assert tensor_placements(Settings(**changes)) == placements


@pytest.mark.parametrize(
    ("text", "shares"),
    [("", ()), ("3,1", (3.0, 1.0)), ("0.5/0.5", (0.5, 0.5)), ("0,1", (0.0, 1.0))],
)
def test_tensor_split(text, shares):
    assert tensor_split(Settings(tensor_split=text)) == shares


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"tensor_split": "3,x"}, ("tensor_split", "3,x")),
        ({"tensor_split": "-1,2"}, ("tensor_split",)),
        ({"tensor_split": "0,0"}, ("tensor_split",)),
        ({"tensor_split": "inf"}, ("tensor_split",)),
        ({"override_tensor": "blk"}, ("override_tensor", "blk")),
        ({"override_tensor": "=CPU"}, ("override_tensor",)),
        ({"override_tensor": "blk="}, ("override_tensor",)),
        ({"override_tensor": "(=CPU"}, ("override_tensor", "regular expression")),
        ({"cache_type_v": "q8_0", "flash_attn": "off"}, ("cache_type_v", "flash_attn")),
    ],
)
def test_settings_that_cannot_be_are_named(changes, names):
    with pytest.raises(SettingsError) as caught:
        check_params(Settings(**changes))
    for name in names:
        assert name in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("mebibytes", "n_cores", "n_wanted"),
    [(5, 8, 1), (32, 8, 1), (33, 8, 2), (500, 8, 8), (500, 2, 2), (0, 4, 1)],
)
def test_a_small_model_gets_few_threads(mebibytes, n_cores, n_wanted):
    assert thread_count(mebibytes * 1024 * 1024, n_cores) == n_wanted


def test_threads_that_the_user_set_stand_whatever_the_models_size():
    assert n_threads(Settings(threads=3), 1) == (3, 3)
    assert n_threads(Settings(), 1) == (1, 1)
    assert n_threads(draft_settings(Settings(spec_draft_threads=5), 100), 1) == (5, 5)
