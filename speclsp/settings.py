"""The table of settings: name, type, default, help, aliases, and when a change takes effect.

The command line, the language server's configuration, the VS Code extension's and the documents'
tables are made from this table, and no default is repeated elsewhere.

Names follow llama.cpp's ``common/arg.cpp``; names that upstream has renamed are aliases.
"""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

Scope = Literal["live", "engine", "restart"]
"""When a change takes effect: with the next request, by reloading the models, or at a restart."""

KvCacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
FlashAttn = Literal["on", "off", "auto"]
FimLayout = Literal["anchored", "plain"]
EditFormat = Literal["auto", "sweep-8", "sweep-21", "zeta-1", "zeta-2", "zeta-2.1", "analogy"]
Multiline = Literal["auto", "always", "never"]
CompletionItems = Literal["auto", "always", "never"]
DraftMode = Literal["auto", "tree", "chain", "first"]
SplitMode = Literal["none", "layer", "row", "tensor"]
LoadMode = Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]
EngineKind = Literal["shared", "own"]
LookupCacheUpdate = Literal["", "accepted", "generated", "off"]
"""What is counted in a statistics file; "" as ``accepted``, in speclsp's own files only."""
RemoteKind = Literal["auto", "llama-server", "openai", "ollama", "mistral", "deepseek"]

SettingValue = bool | int | float | str | list[str] | dict[str, dict[str, bool | int | float | str]]

MAX_INT = 2**31 - 1
"""llama.cpp's parameters are 32-bit integers, and waits of 2⁶³ ns overflow."""
GpuLayers = Annotated[int, msgspec.Meta(ge=-MAX_INT, le=MAX_INT)] | Literal["auto", "all"]

_NonNegative = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
_Probability = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
_NgramSize = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_MinusOneOrMore = Annotated[int, msgspec.Meta(ge=-1, le=MAX_INT)]
_Threads = Annotated[int, msgspec.Meta(ge=-1, le=512)]
"""More threads than 512 end ggml."""
_Layers = Annotated[int, msgspec.Meta(ge=0, le=1024)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """A row of the table, beside the setting's type and default."""

    group: str
    help: str = ""
    scope: Scope = "live"
    aliases: tuple[str, ...] = ()
    short: str = ""
    """llama.cpp's one-dash form for the command line."""
    per_language: bool = False
    """Whether ``languages`` may override it for one language id."""
    by_folder: bool = False
    """Whether it may differ by workspace folder, since each request carries it."""
    of_machine: bool = False
    """Whether it names files, models or processes, or masks secrets; no workspace may choose it."""
    may_be_secret: bool = False
    """Whether its value may hold a key, token or password; messages leave a wrong value out."""

    @property
    def reader(self) -> str:
        """The drafter or mode that reads the setting: its help begins with it; "" for others."""
        reader, colon, _ = self.help.partition(": ")
        return reader if colon and reader.islower() else ""


# What the settings of a group share.
_COMPLETION = SettingInfo(group="suggestions", per_language=True, by_folder=True)
_MEMORY = SettingInfo(group="suggestions")
_MODEL = SettingInfo(group="models", scope="engine")
_MODEL_FILES = replace(_MODEL, of_machine=True)
_REMOTE = SettingInfo(group="remote engine", scope="engine", of_machine=True)
_PROMPT = SettingInfo(group="prompt", by_folder=True)
_EDITS = SettingInfo(group="next edits", by_folder=True)
_SPECULATION = SettingInfo(group="speculation")
_DRAFTERS = replace(_SPECULATION, scope="engine")
_STATISTICS_FILES = replace(_SPECULATION, of_machine=True)
_PROJECT = SettingInfo(group="project")
_LOG = SettingInfo(group="log")
_SAMPLING = SettingInfo(group="sampling", per_language=True, by_folder=True)


def _setting(default: Any, shared: SettingInfo, help_text: str, **own: Any) -> Any:
    """Return a field whose row has the ``shared`` values of its group and its ``own`` ones."""
    info = replace(shared, help=help_text, **own)
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata={"info": info})
    return field(default=default, metadata={"info": info})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Resolved settings: every value is valid."""

    enabled: bool = _setting(
        True, _COMPLETION, "Suggest completions; off frees the models' memory."
    )
    n_predict: _Positive = _setting(
        128,
        _COMPLETION,
        "Maximum tokens of one completion.",
        aliases=("predict", "max_tokens"),
        short="-n",
    )
    multiline: Multiline = _setting(
        "auto",
        _COMPLETION,
        "Allow several lines: `always`, `never`, or `auto` (where the cursor's line opens a "
        "block, a docstring or a comment, or is empty).",
    )
    max_lines: _Positive = _setting(20, _COMPLETION, "Maximum lines of one completion.")
    min_probability: _Probability = _setting(
        0.3,
        _COMPLETION,
        "A suggestion ends before the token with which the joint probability of its tokens falls "
        "below this; 0 ends none.",
    )
    edit_format: EditFormat = _setting(
        "auto",
        _EDITS,
        "Prompt format of next edits; `auto` takes what the model was trained for, by its name and "
        "vocabulary, or else `analogy` where that is quick.",
    )
    n_candidates: Annotated[int, msgspec.Meta(ge=1, le=8)] = _setting(
        3,
        _COMPLETION,
        "Number of suggestions where you ask for them; while you type there is one.",
        aliases=("max_candidates",),
    )
    deadline_ms: _Positive = _setting(
        3000,
        _COMPLETION,
        "Milliseconds after which a request is answered with what is generated so far; next edits "
        "have four times as long.",
    )
    t_max_predict_ms: _NonNegative = _setting(
        700,
        _COMPLETION,
        "Latency budget while you type, as in llama.cpp: the first line that ends so many "
        "milliseconds after the first token ends the suggestion; 0 sets none.",
    )
    debounce_ms: _MinusOneOrMore = _setting(
        -1,
        _COMPLETION,
        "Milliseconds that an automatic request waits for the next keystroke before the model "
        "runs; -1 follows the model's speed (0 where it is fast, at most 150).",
    )
    complete_comments: bool = _setting(True, _COMPLETION, "Complete inside comments.")
    complete_strings: bool = _setting(True, _COMPLETION, "Complete inside string literals.")
    automatic_filters: bool = _setting(
        True,
        _COMPLETION,
        "Skip requests while you type inside a word, or where you rejected the same suggestion "
        "twice. Requests that you make by command are never skipped.",
    )
    languages: dict[str, dict[str, Any]] = _setting(
        {},
        _COMPLETION,
        'Settings by language id, for example `{"markdown": {"enabled": false}}`; any setting '
        "marked *by language*.",
        per_language=False,
    )

    suggestion_memory: bool = _setting(
        True,
        _MEMORY,
        "While you type what was suggested, the rest stays, without running "
        "the model; a running generation continues while you type what it generates.",
    )
    idle_work: Literal["auto", "always", "prompts", "never"] = _setting(
        "auto",
        _MEMORY,
        "What the engine does while you pause: `auto` generates what follows a suggestion that is "
        "shown (prefetch) and evaluates the next prompt, but rests on battery; `always` works on "
        "battery, too; `prompts` leaves out the prefetch; `never` does nothing.",
    )
    completion_items: CompletionItems = _setting(
        "auto",
        _MEMORY,
        "Offer suggestions as items of the editor's popup, too: `always`, `never`, or `auto` (to "
        "clients without ghost text, and to Neovim, which announces ghost text before it is "
        "switched on). It is read once, from the command line or `initializationOptions`.",
        scope="restart",
    )

    model: str = _setting(
        "",
        _MODEL_FILES,
        "Target model: a GGUF's path, a name of `speclsp models list`, `auto` (by the memory that "
        "is free), or `OWNER/NAME[:QUANTIZATION]` on Hugging Face (Q4_K_M where none is named), "
        "which `speclsp models pull` downloads; empty for the embedded trial model.",
        short="-m",
    )
    spec_draft_model: str = _setting(
        "",
        _MODEL_FILES,
        "Draft model, named as `model`; `embedded` is the one of the embedded target model. Empty "
        "takes the one of the target's name, if that has one.",
        aliases=("draft_model", "model_draft"),
        short="-md",
    )
    edit_model: str = _setting(
        "",
        _MODEL_FILES,
        "Model for next edits, named as `model`, but for `auto`; `embedded` is a small one to try "
        "them with. Empty lets the target propose them, as `edit_format` says.",
    )
    n_gpu_layers: GpuLayers = _setting(
        "auto",
        _MODEL,
        "Layers in GPU memory: a number, `all`, or `auto` (as many as fit).",
        aliases=("gpu_layers",),
        short="-ngl",
    )
    device: str = _setting(
        "",
        _MODEL,
        "Devices to offload to, separated by commas; `none` for the CPU alone, empty for all GPUs.",
        short="-dev",
    )
    ctx_size: _NonNegative = _setting(
        4096,
        _MODEL,
        "Size of the KV cache in tokens; 0 takes the model's training context.",
        aliases=("n_ctx",),
        short="-c",
    )
    threads: _Threads = _setting(
        -1,
        _MODEL,
        "CPU threads for decoding; -1 takes the physical cores, fewer for a small model.",
        aliases=("n_threads",),
        short="-t",
    )
    flash_attn: FlashAttn = _setting(
        "auto", _MODEL, "Flash attention; `auto` uses it where the device has it.", short="-fa"
    )
    cache_type_k: KvCacheType = _setting(
        "f16", _MODEL, "Data type of the KV cache's keys.", short="-ctk"
    )
    cache_type_v: KvCacheType = _setting(
        "f16",
        _MODEL,
        "Data type of the KV cache's values; a quantised one needs flash attention.",
        short="-ctv",
    )
    cache_ram: _NonNegative = _setting(
        512,
        _MODEL,
        "Maximum MiB of saved KV states per model; returning to a file or place then needs no "
        "prefill. 0 saves none.",
    )
    fit: bool = _setting(
        True,
        _MODEL,
        "Where the model does not fit the GPU, offload fewer layers, then make the KV cache "
        "smaller.",
    )
    engine: EngineKind = _setting(
        "shared",
        _MODEL_FILES,
        "`own` loads the models in each window's server; `shared` loads them once, in an engine "
        "process for all windows with the same models. Only `serve` reads it.",
        scope="restart",
    )
    engine_exit_seconds: _NonNegative = _setting(
        60,
        _MODEL_FILES,
        "Seconds after which the shared engine ends when its last window has closed.",
        scope="live",
    )
    sleep_idle_seconds: _MinusOneOrMore = _setting(
        900,
        _MODEL,
        "Seconds without a request after which the weights are freed; -1 keeps them loaded.",
        scope="live",
    )

    engine_url: str = _setting(
        "",
        _REMOTE,
        "Address of a remote engine that generates instead of a model on this machine, for "
        "example `http://192.168.1.5:8080`, or `speclsp+unix:///PATH` of `speclsp engine "
        "--listen`; empty for none. `model` may then name a GGUF with the remote model's "
        "vocabulary.",
        may_be_secret=True,
    )
    engine_kind: RemoteKind = _setting(
        "auto",
        _REMOTE,
        "API of the remote engine; `auto` detects it. `openai` is any server with "
        "/v1/completions, such as vLLM.",
    )
    engine_model: str = _setting(
        "",
        _REMOTE,
        "Name of the model to ask a remote engine for; empty takes the only one that it lists.",
    )
    engine_key_file: str = _setting(
        "",
        _REMOTE,
        "File with the remote engine's API key; empty takes it from the environment "
        "variable SPECLSP_ENGINE_KEY, if it is set.",
        may_be_secret=True,
    )
    engine_ca_file: str = _setting(
        "",
        _REMOTE,
        "File of certificates (PEM) to trust a remote engine by; empty takes the system's.",
    )
    n_prompt: _NonNegative = _setting(
        0,
        _PROMPT,
        "Maximum prompt tokens in all; 0 takes 2048, less where the model's context is smaller.",
        aliases=("prompt_tokens",),
    )
    n_context: _MinusOneOrMore = _setting(
        -1,
        _PROMPT,
        "Maximum prompt tokens of context from other files (your last edits, definitions "
        "of the names near the cursor); -1 takes a quarter of the prompt, 0 none.",
        aliases=("context_tokens",),
    )
    fim_template: str = _setting(
        "",
        _PROMPT,
        "Fill-in-the-middle prompt for a model that the built-in table does not know: {prefix}, "
        "{suffix}, and optionally {middle}, {repo}, {path}.",
        scope="engine",
        by_folder=False,
    )

    speculation: bool = _setting(
        True, _SPECULATION, "Draft tokens and verify them; off decodes one token at a time."
    )
    drafters: str = _setting(
        "suffix,ngram-cache,draft",
        _SPECULATION,
        "Drafters, separated by commas; with `mode` first in order of precedence.",
        scope="engine",
        aliases=("spec_type",),
    )
    lookup_cache_static: list[str] = _setting(
        [],
        _STATISTICS_FILES,
        "ngram-cache: statistics files of n-grams of two tokens, which confirm or overrule drafts "
        "(llama.cpp's format or speclsp's).",
        short="-lcs",
    )
    lookup_cache_dynamic: list[str] = _setting(
        [],
        _STATISTICS_FILES,
        "ngram-cache: statistics files of n-grams of any length to draft from (llama.cpp's "
        "format, 1 to 4 tokens, or speclsp's).",
        short="-lcd",
    )
    lookup_cache_update: LookupCacheUpdate = _setting(
        "",
        _STATISTICS_FILES,
        "ngram-cache: what is counted in a file of `lookup_cache_dynamic`: `accepted` (what you "
        "accept), `generated` (what the model writes, as in llama.cpp) or `off`. Without a value, "
        "what you accept is counted in a file that speclsp created, and one that is missing is "
        "created; other files are only read.",
    )

    index_project: bool = _setting(
        True, _PROJECT, "Index the workspace folders, so that drafts come from their files too."
    )
    exclude: list[str] = _setting(
        [],
        _PROJECT,
        "Further files to leave out of the index and, with `mask_secrets`, to suggest nothing in: "
        "patterns as in .gitignore.",
    )
    mask_secrets: bool = _setting(
        True,
        replace(_PROJECT, of_machine=True),
        "Replace passwords, keys and tokens in files and buffers by placeholders, and suggest "
        "nothing on their lines, in files that look secret and in ignored files.",
        scope="restart",
    )
    persist: bool = _setting(
        True,
        _PROJECT,
        "Keep tokens and accepted completions on disk between sessions; off keeps nothing.",
        scope="restart",
    )

    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", _LOG, "Lowest level that is logged."
    )

    temperature: Annotated[float, msgspec.Meta(ge=0.0)] = _setting(
        0.0,
        _SAMPLING,
        "0 takes the most probable token; above, tokens are sampled.",
        aliases=("temp",),
    )
    top_k: _NonNegative = _setting(
        40, _SAMPLING, "Sample from the k most probable tokens; 0 for all."
    )
    top_p: _Probability = _setting(
        0.95,
        _SAMPLING,
        "Sample from the fewest tokens whose probabilities add up to this; 1 for all.",
    )
    min_p: _Probability = _setting(
        0.05,
        _SAMPLING,
        "Drop tokens less probable than this share of the most probable token's probability; 0 "
        "for none.",
    )
    seed: _MinusOneOrMore = _setting(
        -1, _SAMPLING, "Seed of the sampling; -1 takes a new one for each request.", short="-s"
    )

    fim_layout: FimLayout = _setting(
        "anchored",
        _PROMPT,
        "Where the prompt's middle begins: at a line above the cursor (`anchored`), so that a "
        "keystroke evaluates only what you typed, or at the cursor (`plain`).",
        aliases=("layout",),
    )
    healing: bool = _setting(
        True,
        _PROMPT,
        "Token healing: the model generates the last characters that you typed again, constrained "
        "to them, so that no word is split between tokens; off ends the prompt at the cursor.",
    )

    mode: DraftMode = _setting(
        "auto",
        _SPECULATION,
        "How drafts are joined: all drafters in one `tree` or one best `chain`, `auto` for what "
        "saves time, or `first` for the first drafter that drafts, as llama.cpp "
        "does.",
    )
    p_split: _Probability = _setting(
        0.02,
        _SPECULATION,
        "tree: minimum probability of a second branch.",
        aliases=("spec_draft_p_split", "draft_p_split"),
    )
    max_draft: _Positive = _setting(
        31, _SPECULATION, "chain and tree: maximum draft tokens that one pass verifies."
    )
    draft_max: _MinusOneOrMore = _setting(
        -1,
        _DRAFTERS,
        "Maximum tokens of one draft of any drafter; the option `n_max` of `draft` takes "
        "precedence. 0 switches the drafters off, -1 leaves each its default.",
        aliases=("draft", "draft_n", "draft_n_max"),
    )
    draft_min: _MinusOneOrMore = _setting(
        -1,
        _DRAFTERS,
        "Drafts shorter than this are dropped, for each drafter whose own setting is not given; "
        "-1 leaves each its default.",
        aliases=("draft_n_min",),
    )
    spec_ngram_size_n: _NgramSize = _setting(
        12,
        _DRAFTERS,
        "Tokens of context that must match, for `ngram-simple`, `ngram-map-k` and `ngram-map-k4v`; "
        "where it is given, for `ngram-mod` and `prompt-lookup`, too.",
    )
    spec_ngram_size_m: _NgramSize = _setting(
        48,
        _DRAFTERS,
        "Maximum tokens of one draft, for `ngram-simple`, `ngram-map-k` and `ngram-map-k4v` (also "
        "the tokens that tell values apart); where it is given, for `prompt-lookup`, too.",
    )
    spec_ngram_min_hits: _Positive = _setting(
        1,
        _DRAFTERS,
        "Occurrences of the context in the text before it is drafted from, for `ngram-simple`, "
        "`ngram-map-k` and `ngram-map-k4v`.",
    )
    drafter_options: dict[str, dict[str, Any]] = _setting(
        {},
        _DRAFTERS,
        'Options by drafter and name, for example `{"ngram-mod": {"n_match": 16}}`; `speclsp '
        "drafters` lists them. Other packages' drafters get theirs as they are.",
    )
    max_ngram_size: _Positive = _setting(
        16, _SPECULATION, "prompt-lookup: maximum tokens of context to match."
    )
    num_pred_tokens: _Positive = _setting(
        10, _SPECULATION, "prompt-lookup: maximum tokens of one draft."
    )
    spec_ngram_mod_n_match: _NgramSize = _setting(
        24, _DRAFTERS, "ngram-mod: tokens of context that must match."
    )
    spec_draft_n_max: _NonNegative = _setting(3, _DRAFTERS, "draft: maximum tokens of one draft.")
    spec_draft_n_min: _NonNegative = _setting(
        0, _DRAFTERS, "draft: drafts shorter than this are dropped."
    )
    spec_draft_p_min: _Probability = _setting(
        0.0,
        _DRAFTERS,
        "draft: a token less probable than this ends the draft.",
        aliases=("draft_p_min",),
    )

    offline: bool = _setting(
        False, _MODEL_FILES, "Use downloaded models only, and offer no download."
    )

    split_mode: SplitMode = _setting(
        "layer", _MODEL, "How to split the model across several GPUs.", short="-sm"
    )
    tensor_split: str = _setting(
        "", _MODEL, "Share of the model on each GPU, for example `3,1`.", short="-ts"
    )
    main_gpu: _NonNegative = _setting(
        0, _MODEL, "The GPU to use with split_mode none or row.", short="-mg"
    )
    override_tensor: str = _setting(
        "",
        _MODEL,
        "Buffer types for tensors by name: `PATTERN=TYPE,…`, for example `blk\\.1.*=CPU`.",
        short="-ot",
    )
    cpu_moe: bool = _setting(
        False,
        _MODEL,
        "Keep all experts of a mixture-of-experts model on the CPU.",
        short="-cmoe",
    )
    n_cpu_moe: _Layers = _setting(
        0, _MODEL, "Keep the experts of the first N layers on the CPU.", short="-ncmoe"
    )
    n_cpu_ffn: _Layers = _setting(
        0,
        _MODEL,
        "Keep the dense feed-forward weights of the first N layers on the CPU.",
        short="-ncffn",
    )
    kv_offload: bool = _setting(True, _MODEL, "Keep the KV cache in GPU memory.", short="-kvo")
    load_mode: LoadMode = _setting(
        "auto",
        _MODEL,
        "How to read model files: `none`, `mlock` and `dio` read them, the others map them into "
        "memory.",
        short="-lm",
    )
    batch_size: _Positive = _setting(
        2048,
        _MODEL,
        "Maximum tokens of one decode call.",
        aliases=("n_batch",),
        short="-b",
    )
    ubatch_size: _Positive = _setting(
        512,
        _MODEL,
        "Tokens that the backend computes at once.",
        aliases=("n_ubatch",),
        short="-ub",
    )
    threads_batch: _Threads = _setting(
        -1,
        _MODEL,
        "CPU threads for batches and prompts; -1 takes `threads`.",
        aliases=("n_threads_batch",),
        short="-tb",
    )
    spec_draft_device: str = _setting(
        "",
        _MODEL,
        "draft: devices of the draft model; empty follows `device`.",
        aliases=("device_draft",),
        short="-devd",
    )
    spec_draft_ngl: GpuLayers = _setting(
        "auto",
        _MODEL,
        "draft: layers of the draft model in GPU memory, as `n_gpu_layers`.",
        aliases=("gpu_layers_draft", "n_gpu_layers_draft", "spec_draft_n_gpu_layers"),
        short="-ngld",
    )
    spec_draft_threads: _Threads = _setting(
        -1,
        _MODEL,
        "draft: CPU threads of the draft model; -1 follows `threads`, fewer for a small model.",
        aliases=("threads_draft",),
        short="-td",
    )
    spec_draft_threads_batch: _Threads = _setting(
        -1,
        _MODEL,
        "draft: CPU threads of the draft model for batches and prompts; -1 follows "
        "`spec_draft_threads` where that is given, else `threads_batch`.",
        aliases=("threads_batch_draft",),
        short="-tbd",
    )
    spec_draft_ctx_size: _NonNegative = _setting(
        0,
        _MODEL,
        "draft: size of the draft model's KV cache in tokens; of a longer prompt the draft model "
        "reads the end. 0 takes the target's.",
        aliases=("ctx_size_draft",),
        short="-cd",
    )
    spec_draft_type_k: KvCacheType = _setting(
        "f16",
        _MODEL,
        "draft: data type of the keys in the draft model's KV cache.",
        aliases=("cache_type_k_draft",),
        short="-ctkd",
    )
    spec_draft_type_v: KvCacheType = _setting(
        "f16",
        _MODEL,
        "draft: data type of the values in the draft model's KV cache; a quantised one needs flash "
        "attention.",
        aliases=("cache_type_v_draft",),
        short="-ctvd",
    )
    spec_draft_cpu_moe: bool = _setting(
        False,
        _MODEL,
        "draft: keep all experts of a mixture-of-experts draft model on the CPU.",
        aliases=("cpu_moe_draft",),
        short="-cmoed",
    )
    spec_draft_n_cpu_moe: _Layers = _setting(
        0,
        _MODEL,
        "draft: keep the experts of the draft model's first N layers on the CPU.",
        aliases=("spec_draft_ncmoe", "n_cpu_moe_draft"),
        short="-ncmoed",
    )
    spec_replace: list[str] = _setting(
        [],
        _MODEL,
        "draft: pairs `TARGET DRAFT` of strings to replace in the text of a draft model with "
        "another vocabulary, for example `<|fim_prefix|> <PRE>`.",
    )

    @property
    def drafts_here(self) -> bool:
        """Whether drafters run for each pass: a remote engine's passes take no drafts."""
        return self.speculation and not self.engine_url

    @property
    def engine_host(self) -> str:
        """Host and port in ``engine_url``, without what may be secret, or the path of a socket."""
        try:
            parts = urlsplit(self.engine_url)
            return parts.netloc.rpartition("@")[2] or (parts.path if self.engine_listens else "")
        except ValueError:
            return ""

    @property
    def engine_listens(self) -> bool:
        """Whether ``engine_url`` names an engine of speclsp on another machine, which listens."""
        return self.engine_url.startswith("speclsp+unix://")


MOST_SET: Final = (
    "enabled",
    "model",
    "multiline",
    "n_predict",
    "max_lines",
    "min_probability",
    "complete_comments",
    "languages",
    "idle_work",
    "spec_draft_model",
    "n_gpu_layers",
    "ctx_size",
    "threads",
    "engine",
    "engine_url",
    "engine_model",
    "engine_key_file",
    "speculation",
    "lookup_cache_dynamic",
    "index_project",
    "exclude",
    "mask_secrets",
    "persist",
)
"""The settings that most people set, in the order of documents and VS Code; others are advanced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterInfo:
    """What the settings are to one of our drafters."""

    options: tuple[str, ...] = ()
    """The names in ``drafter_options`` of the settings that it alone reads."""
    prefix: str = ""
    """What the settings' own names begin with."""
    most: str = "max_draft"
    """The setting that ends its drafts."""
    surer: tuple[str, ...] = ()
    """Settings of which larger values make fewer and better drafts."""
    least: str = "draft_min"
    """The setting that drops shorter drafts."""
    keeps_text: bool = False
    """Whether it keeps anything of a request's texts when that has ended."""


_OF_NGRAMS: Final = DrafterInfo(
    most="spec_ngram_size_m", surer=("spec_ngram_size_n", "spec_ngram_min_hits")
)
DRAFT_MODEL: Final = "draft"
DRAFTERS: Final = {
    "suffix": DrafterInfo(),
    "region": DrafterInfo(),
    "prompt-lookup": DrafterInfo(
        options=("max_ngram_size", "num_pred_tokens"), most="num_pred_tokens"
    ),
    "ngram-simple": _OF_NGRAMS,
    "ngram-map-k": _OF_NGRAMS,
    "ngram-map-k4v": _OF_NGRAMS,
    "ngram-mod": DrafterInfo(
        options=("n_match",),
        prefix="spec_ngram_mod_",
        most="draft_max",
        surer=("spec_ngram_mod_n_match",),
        keeps_text=True,
    ),
    "ngram-cache": DrafterInfo(most="draft_max"),
    DRAFT_MODEL: DrafterInfo(
        options=("n_max", "n_min", "p_min"),
        prefix="spec_draft_",
        most="spec_draft_n_max",
        surer=("spec_draft_p_min",),
        least="spec_draft_n_min",
    ),
}
"""Our drafters; of other packages' nothing is known."""

DRAFTER_OPTIONS: Final = {
    name: {option: row.prefix + option for option in row.options}
    for name, row in DRAFTERS.items()
    if row.options
}
"""The settings that one drafter alone reads, by drafter and by their names in ``drafter_options``.

Files and devices are settings of their own.  Their own names are llama.cpp's and llama-crab's, for
the command line.
"""

_SPELLINGS: Final = {
    name: f"drafter_options.{drafter}.{option}"
    for drafter, options in DRAFTER_OPTIONS.items()
    for option, name in options.items()
}


def shown_name(name: str) -> str:
    """Return how messages and editors name a setting, given its canonical name."""
    return _SPELLINGS.get(name, name)


SHOWN: Final[tuple[str, ...]] = tuple(
    field.name for field in dataclasses.fields(Settings) if field.name not in _SPELLINGS
)
"""The settings that editors show: all but the drafters' options."""

FIELDS: dict[str, dataclasses.Field[Any]] = {f.name: f for f in dataclasses.fields(Settings)}
TYPES: dict[str, Any] = typing.get_type_hints(Settings, include_extras=True)


def info(name: str) -> SettingInfo:
    """Return the table's row of a setting, by its canonical name."""
    return typing.cast("SettingInfo", FIELDS[name].metadata["info"])


PER_REQUEST: frozenset[str] = frozenset(
    name
    for name in FIELDS
    if info(name).scope == "live" and not info(name).of_machine and info(name).group != "models"
)
"""Settings that each request reads, and may set; the others are the machine's or the models'."""


def default(name: str) -> Any:
    """Return the default of a setting, by its canonical name."""
    row = FIELDS[name]
    if row.default_factory is not dataclasses.MISSING:
        return row.default_factory()
    return row.default


def changed(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return the names of the settings whose values differ."""
    return tuple(n for n in FIELDS if getattr(old, n) != getattr(new, n))


def named_path(value: str) -> Path:
    """Return the path that a setting's value names; ``~`` and ``~user`` are home folders.

    An unknown user's ``~name`` stays as it is.
    """
    return Path(os.path.expanduser(value))  # noqa: PTH111  Path's raises for unknown users


def leaves(name: str) -> tuple[Any, ...]:
    """Return the types and the words of a setting: int and "auto" for ``int | Literal["auto"]``."""
    return tuple(_leaves(TYPES[name]))


def _leaves(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type):
        yield hint
    elif typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    else:
        for inner in typing.get_args(hint):
            yield from _leaves(inner)
