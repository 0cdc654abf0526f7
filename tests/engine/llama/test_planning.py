"""What is tried first on the GPUs that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speclsp.engine.llama import placement, planning
from speclsp.engine.llama.gguf_header import read_gguf_header
from speclsp.engine.llama.library import DeviceInfo
from speclsp.engine.llama.shape import estimate_shape
from speclsp.engine.params import ModelParams, draft_params, target_params
from speclsp.errors import ModelLoadError
from speclsp.settings import Settings

GIB = 1024**3


def gpu(name: str = "CUDA0", free: int = 8 * GIB) -> DeviceInfo:
    return DeviceInfo(name, "a GPU", "gpu", free, 8 * GIB, handle=0)


@pytest.fixture
def path(model_folder: Path) -> Path:
    return model_folder / "embedded-target-q8_0.gguf"


def plan(
    path: Path, gpus: list[DeviceInfo], n_bytes_reserved: int = 0, **changes: Any
) -> tuple[int, int]:
    settings = Settings(**changes)
    attempt = planning.plan(
        read_gguf_header(path),
        *target_params(settings),
        gpus,
        fit=settings.fit,
        n_bytes_reserved=n_bytes_reserved,
    )
    return attempt.n_gpu_layers, attempt.n_ctx


@pytest.mark.parametrize(
    ("gpus", "changes", "n_gpu_layers", "n_ctx"),
    [
        ([], {}, 0, 2048),
        ([], {"n_gpu_layers": "all"}, 0, 2048),
        ([gpu()], {}, 6, 2048),
        ([gpu()], {"ctx_size": 0}, 6, 2048),
        ([gpu()], {"ctx_size": 1000}, 6, 1000),
        ([gpu(free=0)], {}, 0, 2048),
        ([gpu(free=0), gpu("CUDA1")], {}, 6, 2048),
        ([gpu(free=0)], {"fit": False}, 6, 2048),
        ([gpu(free=0)], {"n_gpu_layers": "all"}, 6, 2048),
        ([gpu(free=0)], {"n_gpu_layers": 4}, 4, 2048),
        ([gpu()], {"n_gpu_layers": 99}, 6, 2048),
        ([gpu()], {"n_gpu_layers": 0}, 0, 2048),
        ([gpu()], {"n_gpu_layers": -1}, 6, 2048),
    ],
)
def test_the_first_attempt(
    path: Path, gpus: list[DeviceInfo], changes: dict[str, Any], n_gpu_layers: int, n_ctx: int
) -> None:
    assert plan(path, gpus, **changes) == (n_gpu_layers, n_ctx)


def test_auto_leaves_what_is_reserved(path: Path) -> None:
    header = read_gguf_header(path)
    shape = estimate_shape(header, *target_params(Settings(ctx_size=2048)))
    whole = shape.offloaded_bytes(6, 2048)
    kept_free = 512 * 1024**2
    room = [gpu(free=kept_free + whole)]
    assert plan(path, room) == (6, 2048)
    assert plan(path, room, n_bytes_reserved=shape.layer_bytes[0]) == (5, 2048)
    assert plan(path, room, n_bytes_reserved=whole) == (0, 2048)
    # Whoever names a number gets it.
    assert plan(path, room, n_bytes_reserved=whole, n_gpu_layers=6) == (6, 2048)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (gpu("CUDA0"), gpu("CUDA1"), DeviceInfo("CPU", "", "cpu", 0, 0, handle=0))
    monkeypatch.setattr(placement, "devices", lambda: found)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("changes", "n_layers"),
    [
        ({}, 6),
        ({"spec_draft_ngl": "all"}, 6),
        ({"spec_draft_ngl": -1}, 6),
        ({"spec_draft_ngl": 2}, 2),
        ({"spec_draft_ngl": 0}, 0),
        ({"spec_draft_device": "none"}, 0),
        ({"device": "CUDA0", "spec_draft_device": "CUDA1"}, 0),
        ({"spec_draft_device": "CUDA1"}, 6),
        ({"device": "none", "spec_draft_device": "CUDA1"}, 0),
    ],
)
def test_what_a_draft_model_wants_beside_the_target(
    path: Path, changes: dict[str, Any], n_layers: int
) -> None:
    settings = Settings(ctx_size=1024, **changes)
    target, _ = target_params(settings)
    of_draft = draft_params(settings, 1024)
    shape = estimate_shape(read_gguf_header(path), *of_draft)
    wanted = planning.bytes_wanted(path, *of_draft, beside=target)
    assert wanted == shape.offloaded_bytes(n_layers, 1024)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("params", "names"),
    [
        (ModelParams(), ["CUDA0", "CUDA1"]),
        (ModelParams(devices=("CUDA1",)), ["CUDA1"]),
        (ModelParams(devices=()), []),
        # main_gpu counts for one GPU alone
        (ModelParams(main_gpu=1), ["CUDA0", "CUDA1"]),
        (ModelParams(split_mode="none"), ["CUDA0"]),
        (ModelParams(split_mode="none", main_gpu=1), ["CUDA1"]),
        (ModelParams(split_mode="none", main_gpu=-1), []),
        (ModelParams(split_mode="none", devices=("CUDA1",)), ["CUDA1"]),
        (ModelParams(split_mode="none", devices=(), main_gpu=3), []),
    ],
)
def test_the_devices_that_count(params: ModelParams, names: list[str]) -> None:
    assert [device.name for device in placement.offload_devices(params)] == names


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ModelLoadError, match="no GPU number 2") as caught:
        placement.offload_devices(ModelParams(split_mode="none", main_gpu=2))
    assert "There are CUDA0, CUDA1" in caught.value.remedy
