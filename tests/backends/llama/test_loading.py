"""Loading: where the layers go, and what happens where memory is short."""

import types
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from llama_cpp import llama_cpp as llama
from quiet_loading import quiet_target

from speclsp.backends.llama import fit, loading, model
from speclsp.backends.llama.context import LlamaTarget
from speclsp.backends.llama.fit import estimate_shape
from speclsp.backends.llama.library import DeviceInfo, collected_lines
from speclsp.backends.llama.model import LlamaModel, open_model
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.errors import DecodeError, EngineUnavailableError, ModelLoadError, ModelNotFoundError
from speclsp.settings import Settings

GIB = 1024**3


def gpu() -> DeviceInfo:
    return DeviceInfo("CUDA0", "a GPU", "gpu", 8 * GIB, 8 * GIB, handle=0)


@pytest.fixture
def path(model_folder):
    return model_folder / "embedded-target-f16.gguf"


@pytest.fixture
def lines():
    """What the log says, each line with its level."""
    return []


@pytest.fixture
def load(closed, lines):
    return lambda path, **changes: closed(quiet_target(path, lines, **changes))


def test_the_log_says_what_is_where(load, lines, path):
    load(path)
    text = "\n".join(line for line in lines if line.startswith("info"))
    assert "embedded-target-f16.gguf: 7 of 7 layers on CPU, " in text
    assert "context 2048 (trained on 2048)" in text
    assert "no GPU to offload to, computing on the CPU: this build" in text


@pytest.mark.parametrize(("system", "is_used"), [(b"AMX_INT8 = 1 | ", False), (b"AVX2 = 1", True)])
def test_kernels_for_amx_are_left_alone(path, system, is_used, monkeypatch):
    """They crash in many builds, and llama.cpp takes them with its other repacked weights."""
    given: list[bool] = []

    def load_from_file(name, native):
        given.append(native.use_extra_bufts)
        return real(name, native)

    real = model.llama.llama_model_load_from_file
    monkeypatch.setattr(model.llama, "llama_print_system_info", lambda: system)
    monkeypatch.setattr(model.llama, "llama_model_load_from_file", load_from_file)
    open_model(path, Settings(), 0, lambda share: True).close()
    assert given == [is_used]


def test_a_kv_cache_beyond_the_free_memory_is_cut_before_it_is_allocated(
    load, lines, path, monkeypatch
):
    def free(n_bytes):
        memory = types.SimpleNamespace(available=n_bytes)
        monkeypatch.setattr(loading.psutil, "virtual_memory", lambda: memory)

    n_bytes_per_position = 6 * 2 * 64 * 2  # layers, keys and values, head width, f16
    free(600 * n_bytes_per_position)
    monkeypatch.setattr(fit, "FIT_CTX", 512)
    target = load(path, ctx_size=0)
    assert target.n_ctx == 512
    warnings = [line for line in lines if line.startswith("warning")]
    assert "for the KV cache exceeds" in warnings[0]
    assert "the KV cache was cut from 2048 to 512 positions" in warnings[-1]
    with pytest.raises(ModelLoadError, match="does not fit the memory") as caught:
        load(path, ctx_size=0, fit=False)
    assert "lower ctx_size" in caught.value.remedy


def test_progress_is_told_and_may_call_it_off(path):
    shares: list[float] = []
    settings = Settings(threads=1)

    def go(on):
        return loading.load_target(
            path,
            settings,
            progress=lambda share: shares.append(share) or on,
            log=lambda level, line: None,
        )

    go(True).close()
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    with pytest.raises(EngineUnavailableError, match="called off"):
        go(False)


def test_the_estimate_of_the_weights_is_the_file_s(path):
    header = read_gguf_header(path)
    shape = estimate_shape(header, Settings())
    model = open_model(path, Settings(), 0, lambda share: True)
    embedding = header.tensor_bytes["token_embd.weight"]
    # Tied: the embedding is the output too, and counts as that.
    assert sum(shape.layer_bytes) + shape.output_bytes == model.size
    assert shape.output_bytes > embedding
    model.close()


@pytest.mark.parametrize(
    ("type_k", "type_v"), [("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q5_1"), ("f32", "bf16")]
)
def test_the_estimate_of_the_kv_cache_is_llama_cpp_s(load, path, type_k, type_v):
    settings = Settings(cache_type_k=type_k, cache_type_v=type_v, flash_attn="on", ctx_size=1024)  # type: ignore[arg-type]
    shape = estimate_shape(read_gguf_header(path), settings)
    with collected_lines() as lines:
        load(path, cache_type_k=type_k, cache_type_v=type_v, flash_attn="on", ctx_size=1024)
    line = next(line for _, line in lines if "KV buffer size" in line)
    mib = float(line.split("=")[1].split()[0])
    assert sum(shape.kv_bytes_per_position) * 1024 / 1024**2 == pytest.approx(mib, abs=0.006)


def test_tensors_placed_on_the_cpu_take_no_room_on_the_gpu(path):
    header = read_gguf_header(path)
    whole = estimate_shape(header, Settings())
    part = estimate_shape(header, Settings(override_tensor=r"blk\.[01]\.ffn.*=CPU,output=CUDA0"))
    assert part.layer_bytes[0] < whole.layer_bytes[0]
    assert part.layer_bytes[1] < whole.layer_bytes[1]
    assert part.layer_bytes[2:] == whole.layer_bytes[2:]
    on_cpu = estimate_shape(header, Settings(kv_offload=False))
    assert sum(on_cpu.kv_bytes_per_position) == 0
    slow = estimate_shape(header, Settings(flash_attn="off"))
    assert slow.compute_bytes > whole.compute_bytes


class ShortMemory:
    """Fails as llama.cpp does until few enough layers and positions are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_layers: int, n_ctx: int) -> None:
        self.opened: list[int] = []
        self.contexts: list[int] = []

        def open_short(path: Path, params: Any, n_gpu_layers: int, progress: Any) -> LlamaModel:
            self.opened.append(n_gpu_layers)
            if n_gpu_layers > n_layers:
                raise ModelLoadError("llama.cpp cannot load it: unable to allocate CUDA0 buffer.")
            return open_model(path, params, 0, progress)

        class Target(LlamaTarget):
            def __init__(target, model: LlamaModel, settings: Settings, asked: int) -> None:  # noqa: N805
                self.contexts.append(asked)
                if asked > n_ctx:
                    raise ModelLoadError("cannot make a context: failed to allocate buffer")
                super().__init__(model, settings, asked)

        monkeypatch.setattr(loading, "open_model", open_short)
        monkeypatch.setattr(loading, "LlamaTarget", Target)
        monkeypatch.setattr(loading, "offload_devices", lambda params: (gpu(),))


def test_fewer_layers_where_the_weights_do_not_fit(load, lines, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=3, n_ctx=4096)
    load(path)
    assert memory.opened == [7, 6, 5, 4, 3]
    assert memory.contexts == [2048]
    warnings = [line for line in lines if line.startswith("warning")]
    assert len(warnings) == 5
    assert "6 instead of 7 layers" in warnings[0]
    assert "unable to allocate" in warnings[0]
    # The weights were opened without a GPU here, so that all of them are on the CPU.
    assert "7 of 7 layers did not fit the GPU and are slow on the CPU" in warnings[4]


def test_then_a_smaller_kv_cache(load, lines, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=7, n_ctx=600)
    monkeypatch.setattr(fit, "FIT_CTX", 512)
    target = load(path)
    assert target.n_ctx == 512
    assert memory.opened == [7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
    assert memory.contexts == [2048] * 8 + [1024, 512]
    assert any("cut from 2048 to 512" in line for line in lines)


def test_then_one_clear_error(load, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=7, n_ctx=100)
    monkeypatch.setattr(fit, "FIT_CTX", 1024)
    with pytest.raises(ModelLoadError, match="does not fit the memory") as caught:
        load(path)
    assert memory.contexts == [2048] * 8 + [1024]
    assert "smaller model" in caught.value.remedy


def test_without_fit_the_first_failure_is_the_last(load, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=3, n_ctx=4096)
    with pytest.raises(ModelLoadError, match="does not fit the memory"):
        load(path, fit=False)
    assert memory.opened == [7]


def test_a_device_that_is_full_at_the_first_decode_gets_fewer_layers(load, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=7, n_ctx=4096)
    full = DecodeError("llama_decode failed: the device is out of memory.")
    monkeypatch.setattr(LlamaTarget, "warm_up", Mock(side_effect=[full, full, None]))
    load(path)
    assert memory.opened == [7, 6, 5]


def test_a_model_that_cannot_decode_is_not_tried_again(load, path, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=7, n_ctx=4096)
    invalid = DecodeError("llama_decode failed: the batch is not valid.")
    monkeypatch.setattr(LlamaTarget, "warm_up", Mock(side_effect=invalid))
    with pytest.raises(ModelLoadError, match="cannot decode"):
        load(path)
    assert memory.opened == [7]


def test_other_failures_are_not_tried_again(load, gguf_maker, monkeypatch):
    memory = ShortMemory(monkeypatch, n_layers=9, n_ctx=4096)
    narrow = gguf_maker.narrow_model("narrow.gguf", ["a", "b", "ab", "c"])
    with pytest.raises(ModelLoadError, match="block size"):
        load(narrow, cache_type_k="q8_0")
    assert len(memory.opened) == 1


def test_a_context_of_one_position_is_refused_with_its_remedy(load, path):
    with pytest.raises(ModelLoadError, match="a context of 1 position") as caught:
        load(path, ctx_size=1)
    assert "ctx_size" in caught.value.remedy
    load(path, ctx_size=2)


def test_a_missing_part_of_a_split_model(load, path, tmp_path):
    part = tmp_path / "model-00001-of-00002.gguf"
    part.write_bytes(path.read_bytes())
    with pytest.raises(ModelNotFoundError, match=r"model-00002-of-00002\.gguf is missing"):
        load(part)


def test_the_header_of_a_split_model_is_read_from_all_parts(path, tmp_path):
    for number in (1, 2):
        (tmp_path / f"model-0000{number}-of-00002.gguf").write_bytes(path.read_bytes())
    header = read_gguf_header(tmp_path / "model-00001-of-00002.gguf")
    assert header.tensor_bytes == read_gguf_header(path).tensor_bytes


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"device": "CUDA7"}, "no device named 'CUDA7'", "There is no GPU: this build"),
        ({"device": "CPU"}, "no device named 'CPU'", "none"),
        ({"override_tensor": "blk.*=CUDA7"}, "no buffer type named 'CUDA7'", "There are CPU"),
        ({"tensor_split": ",".join("1" * 17)}, "17 devices", ""),
    ],
)
def test_names_that_are_not_there(load, path, changes, message, remedy):
    with pytest.raises(ModelLoadError) as caught:
        load(path, **changes)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "none"},
        {"override_tensor": r"blk\.1.*=CPU,output=CPU", "load_mode": "none"},
        {"cpu_moe": True, "n_cpu_moe": 2, "n_cpu_ffn": 1},
        {"tensor_split": "3,1", "split_mode": "row"},
        {"load_mode": "mlock"},
        {"load_mode": "mmap"},
        {"n_gpu_layers": 3, "kv_offload": False, "split_mode": "none"},
    ],
)
def test_placements_that_work_without_a_gpu(load, path, changes):
    target = load(path, **changes)
    assert target.decode([1, 2, 3], 1).shape == (1, 4096)


def test_the_lazy_mode_is_llama_cpps(load, path, monkeypatch):
    native, modes = llama.llama_model_load_from_file, []

    def noted(name, params):
        modes.append(params.lazy_mode)
        return native(name, params)

    monkeypatch.setattr(llama, "llama_model_load_from_file", noted)
    load(path)
    assert modes == [llama.LLAMA_LAZY_MODE_AUTO]


def test_a_vocabulary_alone_is_no_model(load, gguf_maker):
    with pytest.raises(ModelLoadError, match=r"token_embd\.weight"):
        load(gguf_maker.bpe_vocabulary("v.gguf", ["a", "b", "ab"], eos_token_id=1))
