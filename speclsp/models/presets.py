"""The table of presets: which model files to use with how much memory, and why.

A file's size that ends in zeros is rounded to 10 MB; the exact size is read from the hub before a
download.
Sources: the repositories' file lists and model cards, and the models' ``config.json``; for the
newer models public scripts that download these files, and the results of tsugi.nvim's benchmarks
(github.com/MizuchiLabs/tsugi.nvim, bench/RESULTS.md, read in November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal

from speclsp.errors import SettingsError
from speclsp.model_title import model_title
from speclsp.models.references import Reference

if TYPE_CHECKING:
    from speclsp.backends.memory import Memory

AUTO: Final = "auto"
"""The name that selects the best preset for the free memory."""

_N_CTX: Final = 4096
"""Positions of the KV cache to leave room for: the default of ``ctx_size``."""
_ROOM_BYTES: Final = 3 << 29
"""For intermediate results, the GPU's own context, and what other programs take: 1.5 GiB."""
_MANY_CORES: Final = 8
"""Least physical cores with which the larger model for a CPU answers while you type."""

_APACHE: Final = "Apache 2.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A GGUF file on Hugging Face."""

    repository: str
    file: str
    size_bytes: int
    kv_bytes: int
    """Of one position in an f16 KV cache: 2 · 2 bytes · layers · KV heads · head width."""
    licence: str = _APACHE
    tuning: Literal["base", "instruct"] = "base"

    @property
    def title(self) -> str:
        """The model's name in messages and lists, with its quantization."""
        return model_title(self.file)

    @property
    def reference(self) -> Reference:
        """What to download."""
        return Reference(self.repository, file=self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A target model, perhaps with a draft model."""

    target: ModelFile
    draft: ModelFile | None = None
    memory: str = ""
    """Memory for which ``auto`` chooses it, such as ``8 GB``; empty if it never does."""
    edits: bool = False
    """Whether it proposes next edits."""
    untried: bool = False
    """Whether the facts are its publishers' alone: nothing was run with its weights."""
    why: str

    @property
    def title(self) -> str:
        """The models' names in messages and lists."""
        return self.target.title + (f" with {self.draft.title}" if self.draft else "")

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """The target, and the draft model where there is one."""
        return (self.target, self.draft) if self.draft else (self.target,)

    @property
    def size_bytes(self) -> int:
        """Size of the download."""
        return sum(file.size_bytes for file in self.files)

    @property
    def needed_bytes(self) -> int:
        """Memory that the models take with their KV caches, and room for the rest."""
        return self.size_bytes + sum(file.kv_bytes for file in self.files) * _N_CTX + _ROOM_BYTES


_0_5B_Q8 = ModelFile(
    repository="ggml-org/Qwen2.5-Coder-0.5B-Q8_0-GGUF",
    file="qwen2.5-coder-0.5b-q8_0.gguf",
    size_bytes=530_000_000,
    kv_bytes=12_288,
)
_1_5B_Q8 = ModelFile(
    repository="ggml-org/Qwen2.5-Coder-1.5B-Q8_0-GGUF",
    file="qwen2.5-coder-1.5b-q8_0.gguf",
    size_bytes=1_646_573_056,
    kv_bytes=28_672,
)
_3B_Q8 = ModelFile(
    repository="ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF",
    file="qwen2.5-coder-3b-q8_0.gguf",
    size_bytes=3_285_476_160,
    kv_bytes=36_864,
    licence="Qwen Research (not for commercial use)",
)
_7B_Q3 = ModelFile(
    repository="QuantFactory/Qwen2.5-Coder-7B-GGUF",
    file="Qwen2.5-Coder-7B.Q3_K_M.gguf",
    size_bytes=3_810_000_000,
    kv_bytes=57_344,
)
_7B_Q4 = ModelFile(
    repository="QuantFactory/Qwen2.5-Coder-7B-GGUF",
    file="Qwen2.5-Coder-7B.Q4_K_M.gguf",
    size_bytes=4_680_000_000,
    kv_bytes=57_344,
)
_7B_Q8 = ModelFile(
    repository="ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF",
    file="qwen2.5-coder-7b-q8_0.gguf",
    size_bytes=8_098_525_600,
    kv_bytes=57_344,
)
_14B_Q4 = ModelFile(
    repository="mradermacher/Qwen2.5-Coder-14B-GGUF",
    file="Qwen2.5-Coder-14B.Q4_K_M.gguf",
    size_bytes=8_990_000_000,
    kv_bytes=196_608,
)
_14B_Q8 = ModelFile(
    repository="ggml-org/Qwen2.5-Coder-14B-Q8_0-GGUF",
    file="qwen2.5-coder-14b-q8_0.gguf",
    size_bytes=15_700_000_000,
    kv_bytes=196_608,
)
_30B_Q4 = ModelFile(
    repository="unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF",
    file="Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf",
    size_bytes=18_556_689_568,
    kv_bytes=98_304,
    tuning="instruct",
)
_30B_Q8 = ModelFile(
    repository="ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF",
    file="qwen3-coder-30b-a3b-instruct-q8_0.gguf",
    size_bytes=32_480_000_000,
    kv_bytes=98_304,
    tuning="instruct",
)
_SWEEP_1_5B_Q8 = ModelFile(
    repository="sweepai/sweep-next-edit-1.5B",
    file="sweep-next-edit-1.5b.q8_0.v2.gguf",
    size_bytes=1_537_269_856,
    kv_bytes=28_672,
)
_ZETA_2_Q4 = ModelFile(
    repository="bartowski/zed-industries_zeta-2-GGUF",
    file="zed-industries_zeta-2-Q4_K_M.gguf",
    size_bytes=5_060_000_000,
    kv_bytes=131_072,
    licence="see its card",
)
_SEED_8B_Q4 = ModelFile(
    repository="mradermacher/Seed-Coder-8B-Base-GGUF",
    file="Seed-Coder-8B-Base.Q4_K_M.gguf",
    size_bytes=5_060_000_000,
    kv_bytes=131_072,
    licence="MIT",
)
_MELLUM_2_Q4 = ModelFile(
    repository="mradermacher/Mellum2-12B-A2.5B-Base-GGUF",
    file="Mellum2-12B-A2.5B-Base.Q4_K_M.gguf",
    size_bytes=8_100_000_000,
    kv_bytes=57_344,
)
_GRANITE_1B_Q4 = ModelFile(
    repository="ibm-granite/granite-4.0-1b-GGUF",
    file="granite-4.0-1b-Q4_K_M.gguf",
    size_bytes=1_023_645_440,
    kv_bytes=81_920,
    tuning="instruct",
)
_CODER_NEXT_Q4 = ModelFile(
    repository="unsloth/Qwen3-Coder-Next-GGUF",
    file="Qwen3-Coder-Next-UD-Q4_K_XL.gguf",
    size_bytes=49_600_000_000,
    kv_bytes=24_576,
    tuning="instruct",
)

PRESETS: Final[Mapping[str, Preset]] = {
    "qwen2.5-coder-0.5b-q8_0": Preset(
        target=_0_5B_Q8,
        memory="CPU",
        why="The only one that answers while you type on a few cores.",
    ),
    "qwen2.5-coder-1.5b-q8_0": Preset(
        target=_1_5B_Q8,
        memory="4 GB, CPU with 8 cores",
        why="Fits 4 GB, and eight cores run it while you type; llama.cpp's choice there, too.",
    ),
    "qwen2.5-coder-7b-q3_k_m": Preset(
        target=_7B_Q3,
        memory="6 GB",
        why="The largest that fits 6 GB with its KV cache; a 3B model's licence forbids "
        "commercial use.",
    ),
    "qwen2.5-coder-7b-q4_k_m": Preset(
        target=_7B_Q4,
        memory="8 GB",
        why="Q8_0 (8.1 GB) does not fit 8 GB; Q4_K_M takes 4.7 GB and leaves room for the KV "
        "cache.",
    ),
    "qwen2.5-coder-7b-q8_0-draft": Preset(
        target=_7B_Q8,
        draft=_0_5B_Q8,
        memory="12 GB",
        why="Nearly the unquantized model, 15 times the size of its draft model; llama.cpp's "
        "7b-spec.",
    ),
    "qwen2.5-coder-14b-q4_k_m-draft": Preset(
        target=_14B_Q4,
        draft=_0_5B_Q8,
        memory="16 GB",
        why="The largest base model whose KV cache and draft model fit beside it in 16 GB.",
    ),
    "qwen2.5-coder-14b-q8_0-draft": Preset(
        target=_14B_Q8,
        draft=_0_5B_Q8,
        memory="24 GB",
        why="Nearly the unquantized model, 30 times the size of its draft model; llama.cpp's "
        "14b-spec.",
    ),
    "qwen3-coder-30b-a3b-q8_0": Preset(
        target=_30B_Q8,
        memory="48 GB",
        why="A mixture of experts that computes 3 of its 30 billion parameters per token; "
        "llama.cpp's choice.",
    ),
    "qwen3-coder-30b-a3b-q4_k_m": Preset(
        target=_30B_Q4,
        why="As fast as a 3B model, in 24 GB; trained to chat, so auto does not take it.",
    ),
    "qwen2.5-coder-7b-q8_0": Preset(
        target=_7B_Q8, why="For 12 GB, where a draft model does not pay."
    ),
    "qwen2.5-coder-3b-q8_0": Preset(
        target=_3B_Q8,
        why="For 6 GB, twice as fast as the 7B model; its licence forbids commercial use.",
    ),
    "seed-coder-8b-q4_k_m": Preset(
        target=_SEED_8B_Q4,
        untried=True,
        why="For 8 GB; more often right than Sweep's 7B model in tsugi.nvim's replay, but slow "
        "after a jump, since its prompt begins with the suffix.",
    ),
    "mellum2-12b-a2.5b-q4_k_m": Preset(
        target=_MELLUM_2_Q4,
        untried=True,
        why="For 12 GB; as often right as Seed-Coder in that replay, and computes 2.5 of its 12 "
        "billion parameters per token.",
    ),
    "granite-4.0-1b-q4_k_m": Preset(
        target=_GRANITE_1B_Q4,
        untried=True,
        why="For a CPU; a third smaller than the 1.5B model, and no figure for filling in is "
        "known.",
    ),
    "qwen3-coder-next-q4_k_xl": Preset(
        target=_CODER_NEXT_Q4,
        untried=True,
        why="For 64 GB; computes 3 of its 80 billion parameters per token, and no figure for "
        "filling in is known.",
    ),
    "sweep-next-edit-1.5b-q8_0": Preset(
        target=_SWEEP_1_5B_Q8,
        edits=True,
        untried=True,
        why="Next edits and suggestions from one model in 4 GB; untried with speclsp.",
    ),
    "zeta-2-q4_k_m": Preset(
        target=_ZETA_2_Q4,
        edits=True,
        untried=True,
        why="Next edits beside a target model, from 12 GB on; untried with speclsp.",
    ),
}
"""By name.  Those that ``auto`` chooses from are in ascending order of the memory they need."""

LLAMA_CPP_NAMES: Final[Mapping[str, str]] = {
    "fim-qwen-1.5b-default": "qwen2.5-coder-1.5b-q8_0",
    "fim-qwen-3b-default": "qwen2.5-coder-3b-q8_0",
    "fim-qwen-7b-default": "qwen2.5-coder-7b-q8_0",
    "fim-qwen-7b-spec": "qwen2.5-coder-7b-q8_0-draft",
    "fim-qwen-14b-spec": "qwen2.5-coder-14b-q8_0-draft",
    "fim-qwen-30b-default": "qwen3-coder-30b-a3b-q8_0",
}
"""llama.cpp's flags for models, and our presets of the same files."""

_SWEEP, _ZETA = "sweep-next-edit-1.5b-q8_0", "zeta-2-q4_k_m"
_CPU_SMALL, _CPU_LARGE = "qwen2.5-coder-0.5b-q8_0", "qwen2.5-coder-1.5b-q8_0"


def is_preset(name: str) -> bool:
    """Whether a name is a preset's, or llama.cpp's for one."""
    return LLAMA_CPP_NAMES.get(name, name) in PRESETS


def preset(name: str) -> Preset:
    """Return a preset by its name or llama.cpp's.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    found = PRESETS.get(LLAMA_CPP_NAMES.get(name, name))
    if found is None:
        words = name.lower().split("-")
        close = [known for known in PRESETS if all(word in known for word in words)]
        close += get_close_matches(name.lower(), (AUTO, *PRESETS, *LLAMA_CPP_NAMES), n=1)
        meant = f"Did you mean {close[0]}? " if close else ""
        raise SettingsError(
            f"There is no preset {name!r}, and no such file.",
            remedy=f"{meant}`speclsp models list` shows the presets.",
        )
    return found


def why_not(row: Preset, memory: Memory) -> str:
    """Return why a preset's models do not suit a memory, in a few words; empty if they do.

    Where the memory of a CPU is unknown, only the speed is judged.
    """
    is_cpu = memory.kind == "CPU"
    has_room = row.needed_bytes <= memory.free_bytes or (is_cpu and not memory.total_bytes)
    if not has_room:
        return f"too large: needs {_gb(row.needed_bytes)} of memory, {_gb(memory.free_bytes)} free"
    is_small = row in (PRESETS[_CPU_SMALL], PRESETS[_CPU_LARGE])
    return "too slow on a CPU" if is_cpu and not is_small else ""


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB"


def recommend_for_edits(memory: Memory) -> tuple[str, str]:
    """Return the names of the target and the next-edit model for a memory; empty for none.

    The next-edit model is the target where one model serves both.
    """
    if memory.kind == "CPU":
        return "", ""
    n_bytes = PRESETS[_ZETA].needed_bytes - _ROOM_BYTES
    target = recommend(replace(memory, free_bytes=memory.free_bytes - n_bytes))
    if target not in (_CPU_SMALL, _CPU_LARGE):  # else Sweep's answers would suit better
        return target, _ZETA
    return ("", "") if why_not(PRESETS[_SWEEP], memory) else (_SWEEP, _SWEEP)


def recommend(memory: Memory) -> str:
    """Return the name of the best preset for a memory."""
    if memory.kind == "CPU":
        return _CPU_LARGE if memory.n_cores >= _MANY_CORES else _CPU_SMALL
    fitting = [name for name, row in PRESETS.items() if row.memory and not why_not(row, memory)]
    return fitting[-1] if fitting else _CPU_SMALL
