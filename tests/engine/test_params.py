"""From settings to parameters: what follows what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from speclsp.engine.params import (
    draft_params,
    physical_cpu_count,
    target_params,
    thread_count,
)
from speclsp.errors import SettingsError
from speclsp.settings import Settings

N_CORES = physical_cpu_count()
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@pytest.mark.parametrize(
    ("changes", "target", "draft"),
    [
        ({}, (N_CORES, N_CORES), (N_CORES, N_CORES)),
        ({"threads": 3}, (3, 3), (3, 3)),
        ({"threads": 3, "threads_batch": 5}, (3, 5), (3, 5)),
        ({"threads": 3, "spec_draft_threads": 1}, (3, 3), (1, 1)),
        ({"threads": 0}, (N_CORES, N_CORES), (N_CORES, N_CORES)),
    ],
)
def test_threads_follow(
    changes: dict[str, Any], target: tuple[int, int], draft: tuple[int, int]
) -> None:
    settings = Settings(**changes)
    _, of_target = target_params(settings)
    _, of_draft = draft_params(settings, 1000)
    assert (of_target.n_threads, of_target.n_threads_batch) == target
    assert (of_draft.n_threads, of_draft.n_threads_batch) == draft


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
def test_devices_follow(changes: dict[str, Any], target: Any, draft: Any) -> None:
    settings = Settings(**changes)
    assert target_params(settings)[0].devices == target
    assert draft_params(settings, 1000)[0].devices == draft


def test_the_draft_model_s_own_settings_reach_it() -> None:
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
    of_target, target_context = target_params(settings)
    of_draft, draft_context = draft_params(settings, 2048)
    assert (of_target.n_gpu_layers, of_draft.n_gpu_layers) == (7, "all")
    assert (target_context.n_ctx, draft_context.n_ctx) == (4096, 2048)
    assert (target_context.n_batch, target_context.n_ubatch) == (128, 128)
    assert (draft_context.n_batch, draft_context.n_ubatch) == (128, 128)
    assert (target_context.type_k, target_context.type_v) == ("q8_0", "f16")
    assert (draft_context.type_k, draft_context.type_v) == ("f16", "f16")
    assert (target_context.flash_attn, draft_context.flash_attn) == ("on", "on")
    assert of_target.tensor_placements == ((EXPERTS, "CPU"),)
    assert of_draft.tensor_placements == ()


@pytest.mark.parametrize(
    ("changes", "placements"),
    [
        ({}, ()),
        ({"override_tensor": r"blk\.1.*=CPU"}, ((r"blk\.1.*", "CPU"),)),
        ({"override_tensor": "a=CPU,b=CUDA0,"}, (("a", "CPU"), ("b", "CUDA0"))),
        ({"cpu_moe": True}, ((EXPERTS, "CPU"),)),
        ({"n_cpu_moe": 2}, ((rf"blk\.0{EXPERTS}", "CPU"), (rf"blk\.1{EXPERTS}", "CPU"))),
        (
            {"override_tensor": "a=CUDA0", "cpu_moe": True},
            (("a", "CUDA0"), (EXPERTS, "CPU")),
        ),
    ],
)
def test_tensor_placements(changes: dict[str, Any], placements: Any) -> None:
    assert target_params(Settings(**changes))[0].tensor_placements == placements


@pytest.mark.parametrize(
    ("text", "shares"),
    [("", ()), ("3,1", (3.0, 1.0)), ("0.5/0.5", (0.5, 0.5)), ("0,1", (0.0, 1.0))],
)
def test_tensor_split(text: str, shares: tuple[float, ...]) -> None:
    assert target_params(Settings(tensor_split=text))[0].tensor_split == shares


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
def test_settings_that_cannot_be_are_named(changes: dict[str, Any], names: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError) as caught:
        target_params(Settings(**changes))
    for name in names:
        assert name in caught.value.message
    assert caught.value.remedy


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu_id, text in siblings.items():
        (folder / f"cpu{cpu_id}/topology").mkdir(parents=True)
        (folder / f"cpu{cpu_id}/topology/thread_siblings_list").write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("cpu_ids", "siblings", "quota", "n_cores"),
    [
        ({0, 1, 2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, "max 100000", 2),
        ({0, 1, 2, 3}, {0: "0", 1: "1", 2: "2", 3: "3"}, None, 4),
        ({0, 1, 2, 3}, {0: "0", 1: "1", 2: "2", 3: "3"}, "150000 100000", 2),
        ({0, 1}, {0: "0,4", 1: "1,5"}, "50000 100000", 1),
        ({2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, None, 1),  # affinity to one core
        (set(range(8)), {}, None, 4),  # no topology to be read
        ({0, 1, 2}, {}, "nonsense", 3),
    ],
)
def test_physical_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu_ids: set[int],
    siblings: dict[int, str],
    quota: str | None,
    n_cores: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpu_ids, raising=False)
    quota_file = tmp_path / "cpu.max"
    if quota is not None:
        quota_file.write_text(quota)
    assert physical_cpu_count(topology(tmp_path / "cpu", siblings), quota_file) == n_cores


@pytest.mark.parametrize(
    ("mebibytes", "n_cores", "n_threads"),
    [(5, 8, 1), (32, 8, 1), (33, 8, 2), (500, 8, 8), (500, 2, 2), (0, 4, 1)],
)
def test_a_small_model_gets_few_threads(mebibytes: int, n_cores: int, n_threads: int) -> None:
    assert thread_count(mebibytes * 1024 * 1024, n_cores) == n_threads


def test_threads_that_the_user_set_stand_whatever_the_models_size() -> None:
    _, context = target_params(Settings(threads=3), model_bytes=1)
    assert (context.n_threads, context.n_threads_batch) == (3, 3)
    _, automatic = target_params(Settings(), model_bytes=1)
    assert automatic.n_threads == 1
    _, draft = draft_params(Settings(spec_draft_threads=5), 100, model_bytes=1)
    assert draft.n_threads == 5
