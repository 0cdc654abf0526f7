"""The table of presets: what auto chooses, what fits, and the facts that docs/models.md repeats."""

import subprocess
import sys
from pathlib import Path

import pytest

from speclsp import settings
from speclsp.backends import memory as memory_module
from speclsp.backends.memory import Memory, find_memory
from speclsp.errors import SettingsError
from speclsp.model_title import model_title
from speclsp.models.choice import preset_rows
from speclsp.models.presets import (
    LLAMA_CPP_NAMES,
    PRESETS,
    preset,
    recommend,
    recommend_for_edits,
    why_not,
)

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
GIB = 1 << 30


def gpu(gib: float) -> Memory:
    """A GPU of which the desktop takes 7 %."""
    total = round(gib * GIB)
    return Memory(kind="GPU", name="a GPU", total_bytes=total, free_bytes=round(total * 0.93))


@pytest.mark.parametrize(
    ("gib", "name"),
    [
        (2, "qwen2.5-coder-0.5b-q8_0"),
        (4, "qwen2.5-coder-1.5b-q8_0"),
        (6, "qwen2.5-coder-7b-q3_k_m"),
        (8, "qwen2.5-coder-7b-q4_k_m"),
        (12, "qwen2.5-coder-7b-q8_0-draft"),
        (16, "qwen2.5-coder-14b-q4_k_m-draft"),
        (24, "qwen2.5-coder-14b-q8_0-draft"),
        (48, "qwen3-coder-30b-a3b-q8_0"),
        (141, "qwen3-coder-30b-a3b-q8_0"),
    ],
)
def test_auto_takes_the_best_pair_that_fits(gib, name):
    assert recommend(gpu(gib)) == name
    if gib >= 4:
        assert not why_not(PRESETS[name], gpu(gib))
    if PRESETS[name].memory.startswith(f"{gib} GB"):
        assert f"| {gib} GB | {PRESETS[name].title} |" in PAGE


@pytest.mark.parametrize(
    ("n_cores", "name"), [(2, "qwen2.5-coder-0.5b-q8_0"), (8, "qwen2.5-coder-1.5b-q8_0")]
)
def test_auto_takes_a_small_model_without_a_gpu(n_cores, name):
    cpu = Memory(kind="CPU", name="", total_bytes=64 * GIB, free_bytes=60 * GIB, n_cores=n_cores)
    assert recommend(cpu) == name
    assert why_not(PRESETS["qwen2.5-coder-7b-q4_k_m"], cpu), "it would not keep up with typing"


@pytest.mark.parametrize(
    ("name", "kind", "total", "free", "expected"),
    [
        ("qwen2.5-coder-7b-q3_k_m", "CPU", 24, 20, "too slow on a CPU"),
        ("qwen2.5-coder-7b-q3_k_m", "CPU", 0, 0, "too slow on a CPU"),
        (
            "qwen2.5-coder-7b-q8_0", "CPU", 8, 6,
            "too large: needs 9.9 GB of memory, 6.4 GB free",
        ),
        (
            "qwen2.5-coder-7b-q8_0", "NVIDIA GPU", 24, 7,
            "too large: needs 9.9 GB of memory, 7.5 GB free",
        ),
        ("qwen2.5-coder-7b-q8_0", "NVIDIA GPU", 24, 20, ""),
        ("qwen2.5-coder-0.5b-q8_0", "CPU", 24, 20, ""),
    ],
)  # fmt: skip
def test_each_preset_says_why_it_does_not_suit_a_computer(name, kind, total, free, expected):
    memory = Memory(kind=kind, name="", total_bytes=total * GIB, free_bytes=free * GIB)
    assert why_not(PRESETS[name], memory) == expected
    row = next(row for row in preset_rows(memory) if row["name"] == name)
    assert (row["fits"], row["why_not"]) == (not expected, expected)


def test_a_gpu_that_another_program_fills_gets_a_smaller_model():
    busy = Memory(kind="GPU", name="", total_bytes=24 * GIB, free_bytes=7 * GIB)
    assert recommend(busy) == "qwen2.5-coder-7b-q4_k_m"


def test_llama_cpps_names_are_its_files():
    """As in common/arg.cpp: repository and file of each flag, and its draft model's."""
    found = {
        flag: [(file.repository, file.file) for file in preset(flag).files]
        for flag in LLAMA_CPP_NAMES
    }

    def owned(name: str) -> tuple[str, str]:
        return f"ggml-org/{name}-GGUF", f"{name.lower()}.gguf"

    small = owned("Qwen2.5-Coder-0.5B-Q8_0")
    assert found == {
        "fim-qwen-1.5b-default": [owned("Qwen2.5-Coder-1.5B-Q8_0")],
        "fim-qwen-3b-default": [owned("Qwen2.5-Coder-3B-Q8_0")],
        "fim-qwen-7b-default": [owned("Qwen2.5-Coder-7B-Q8_0")],
        "fim-qwen-7b-spec": [owned("Qwen2.5-Coder-7B-Q8_0"), small],
        "fim-qwen-14b-spec": [owned("Qwen2.5-Coder-14B-Q8_0"), small],
        "fim-qwen-30b-default": [owned("Qwen3-Coder-30B-A3B-Instruct-Q8_0")],
    }


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_of_models_says_what_the_table_says(name):
    row = PRESETS[name]
    (line,) = [line for line in PAGE.splitlines() if f"`{name}`" in line and line.startswith("|")]
    for file in row.files:
        assert file.repository in PAGE
        assert f"{file.size_bytes / 1e9:.1f} GB" in PAGE
    assert f"{row.size_bytes / 1e9:.1f} GB" in line
    assert row.target.licence in line
    assert row.target.tuning in line


def test_an_unknown_preset_is_told_with_those_that_exist():
    with pytest.raises(SettingsError, match=r"no preset 'huge'.*speclsp models list"):
        preset("huge")
    with pytest.raises(SettingsError, match=r"Did you mean qwen2.5-coder-7b-q4_k_m\?"):
        preset("qwen2.5-coder-7b-q4_k")
    with pytest.raises(SettingsError, match=r"Did you mean qwen2.5-coder-7b-q3_k_m\?"):
        preset("qwen-7b")


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("qwen2.5-coder-7b-q4_k_m.gguf", "Qwen2.5-Coder 7B Q4_K_M"),
        ("Qwen2.5-Coder-14B.Q4_K_M.gguf", "Qwen2.5-Coder 14B Q4_K_M"),
        ("deep/Qwen2.5-Coder-32B-Q8_0-00001-of-00002.gguf", "Qwen2.5-Coder 32B Q8_0"),
        ("qwen3-coder-30b-a3b-instruct-q8_0.gguf", "Qwen3-Coder 30B-A3B Instruct Q8_0"),
        ("Qwen3-Coder-30B-A3B-Instruct-UD-Q4_K_XL.gguf", "Qwen3-Coder 30B-A3B Instruct UD-Q4_K_XL"),
        ("starcoder2-3b-IQ4_XS.gguf", "Starcoder2 3B IQ4_XS"),
        ("codestral-22b-v0.1-f16.gguf", "Codestral 22B V0.1 F16"),
        ("mine.gguf", "mine"),
    ],
)
def test_a_model_is_named_as_its_user_knows_it(file, title):
    assert model_title(file) == title


def test_the_memory_is_that_of_the_engines_devices():
    found = find_memory()
    assert found.n_cores > 0
    assert 0 < found.free_bytes <= found.total_bytes


def test_the_driver_is_asked_where_there_is_no_engine(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    script = "print('NVIDIA GeForce RTX 4070 Laptop GPU, 8188, 7600')"
    program.write_text(f"#!{sys.executable}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(memory_module.importlib, "import_module", _raise_import_error)
    found = find_memory()
    assert (found.kind, found.name) == ("NVIDIA GPU", "NVIDIA GeForce RTX 4070 Laptop GPU")
    assert found.free_bytes == 7600 << 20
    assert recommend(found) == "qwen2.5-coder-7b-q4_k_m"
    program.write_text(f"#!{sys.executable}\nraise SystemExit(9)\n")
    found = find_memory()
    assert found.kind == "CPU"
    assert not why_not(PRESETS["qwen2.5-coder-0.5b-q8_0"], found)
    assert why_not(PRESETS["qwen2.5-coder-7b-q4_k_m"], found)


def _raise_import_error(_: str) -> None:
    raise ImportError("no llama_cpp")


def test_names_of_models_load_no_engine_and_no_hub():
    """`speclsp serve` resolves its settings before it answers."""
    script = (
        "import sys; from speclsp.models.choice import resolve_models; "
        "from speclsp.settings import Settings; resolve_models(Settings()); "
        "print(*{'llama_cpp', 'numpy', 'huggingface_hub'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_what_names_models_is_the_machines():
    """A workspace chooses neither a target nor a draft model, by whatever name."""
    own = {name for name in settings.FIELDS if settings.info(name).of_machine}
    assert own >= {"model", "spec_draft_model", "offline"}
    assert not any(settings.info(name).by_folder for name in own)


@pytest.mark.parametrize(
    ("gib", "models"),
    [
        (2, ("", "")),
        (4, ("sweep-next-edit-1.5b-q8_0", "sweep-next-edit-1.5b-q8_0")),
        (8, ("sweep-next-edit-1.5b-q8_0", "sweep-next-edit-1.5b-q8_0")),
        (12, ("qwen2.5-coder-7b-q3_k_m", "zeta-2-q4_k_m")),
        (24, ("qwen2.5-coder-14b-q4_k_m-draft", "zeta-2-q4_k_m")),
    ],
)
def test_next_edits_get_a_model_of_their_own_where_it_fits(gib, models):
    memory = gpu(gib)
    assert recommend_for_edits(memory) == models
    for name in filter(None, set(models)):
        assert not why_not(PRESETS[name], memory)
    assert all(PRESETS[name].untried and PRESETS[name].edits for name in models[1:] if name)


def test_auto_takes_no_untried_model():
    assert not [name for name, row in PRESETS.items() if row.untried and row.memory]
