"""Every setting: name, type, default, help, aliases and when a change takes effect.

This is the one table of settings.  The command line, the language server's configuration and the
README's table are all made from it, and no default is repeated elsewhere.

Names follow llama.cpp's ``common/arg.cpp``; names that upstream has renamed are aliases.
On the wire a name may be written ``n_gpu_layers``, ``n-gpu-layers`` or ``nGpuLayers``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from speclsp.errors import SettingsError

Scope = Literal["live", "engine", "restart"]
"""When a change takes effect: with the next request, by reloading the models, or at a restart."""

KvCacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
FlashAttn = Literal["on", "off", "auto"]
FimLayout = Literal["anchored", "plain"]
Multiline = Literal["auto", "always", "never"]
DraftMode = Literal["auto", "tree", "chain", "first"]
DraftSamplingMode = Literal["argmax", "sampled"]
SplitMode = Literal["none", "layer", "row", "tensor"]
LoadMode = Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]
GpuLayers = int | Literal["auto", "all"]

_NonNegative = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Probability = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
_NgramSize = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_NgramDraftSize = Annotated[int, msgspec.Meta(ge=0, le=1024)]
_MinusOneOrMore = Annotated[int, msgspec.Meta(ge=-1)]


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """What the table knows of a setting beside its type and default."""

    help: str
    group: str
    scope: Scope
    aliases: tuple[str, ...] = ()
    short: str = ""
    """llama.cpp's one-dash form for the command line."""
    per_language: bool = False
    """Whether ``languages`` may override it for one language id."""


def _setting(
    default: Any,
    group: str,
    help_text: str,
    *,
    scope: Scope = "live",
    aliases: Sequence[str] = (),
    short: str = "",
    per_language: bool = False,
) -> Any:
    info = SettingInfo(
        help=help_text,
        group=group,
        scope=scope,
        aliases=tuple(aliases),
        short=short,
        per_language=per_language,
    )
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata={"info": info})
    return field(default=default, metadata={"info": info})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Resolved settings: every value is valid."""

    # --- completion -----------------------------------------------------------------------------
    enabled: bool = _setting(
        True,
        "completion",
        "Complete at all; switched off, the models' memory is freed.",
        per_language=True,
    )
    n_predict: _Positive = _setting(
        128,
        "completion",
        "Most tokens of one completion.",
        aliases=("predict",),
        short="-n",
        per_language=True,
    )
    deadline_ms: _Positive = _setting(
        3000,
        "completion",
        "Milliseconds after which a request is answered with what is finished.",
        per_language=True,
    )
    multiline: Multiline = _setting(
        "auto",
        "completion",
        "Several lines: `always`, `never`, or `auto` (where the cursor's line opens a block or is "
        "empty).",
        per_language=True,
    )
    max_lines: _Positive = _setting(
        20, "completion", "Most lines of one completion.", per_language=True
    )
    t_max_predict_ms: _NonNegative = _setting(
        700,
        "completion",
        "Latency budget while you type: a line that ends so many milliseconds after the first "
        "token ends the suggestion, as in llama.cpp; 0 sets none.",
        per_language=True,
    )
    n_candidates: Annotated[int, msgspec.Meta(ge=1, le=8)] = _setting(
        3,
        "completion",
        "Suggestions to choose from where the user asks for them; while typing there is one.",
        per_language=True,
    )
    min_confidence: _Probability = _setting(
        0.15,
        "completion",
        "Least (geometric) mean probability of a suggestion's tokens while you type, from 0, which "
        "shows every suggestion, to 1.",
        per_language=True,
    )
    complete_comments: bool = _setting(
        True, "completion", "Complete inside comments.", per_language=True
    )
    complete_strings: bool = _setting(
        True, "completion", "Complete inside string literals.", per_language=True
    )
    debounce_ms: _MinusOneOrMore = _setting(
        -1,
        "completion",
        "Milliseconds that an automatic request waits for the next keystroke before it reaches the "
        "model; -1 follows the model's measured speed (0 where it is fast, at most 150), and waits "
        "longer where suggestions were turned down many times in a row.",
        per_language=True,
    )
    automatic_filters: bool = _setting(
        True,
        "completion",
        "Answer automatic requests empty where they cannot help: inside a word, and where the same "
        "text was turned down twice. A request that the user makes always goes to the model.",
        per_language=True,
    )
    exclude_automatic: list[str] = _setting(
        [],
        "completion",
        "Paths that are not completed automatically, as in .gitignore, relative to the workspace "
        "folder.",
    )
    languages: dict[str, dict[str, Any]] = _setting(
        {},
        "completion",
        'Settings by language id, for example `{"markdown": {"enabled": false}}`; '
        "any setting of the groups completion and sampling.",
    )

    # --- sampling -------------------------------------------------------------------------------
    temperature: Annotated[float, msgspec.Meta(ge=0.0)] = _setting(
        0.0,
        "sampling",
        "0 takes the most probable token; above, tokens are drawn.",
        aliases=("temp",),
        per_language=True,
    )
    top_k: _NonNegative = _setting(
        40, "sampling", "Draw among the k most probable tokens; 0 for all.", per_language=True
    )
    top_p: _Probability = _setting(
        0.95,
        "sampling",
        "Draw among the fewest tokens whose probability reaches this; 1 for all.",
        per_language=True,
    )
    min_p: _Probability = _setting(
        0.05,
        "sampling",
        "Drop tokens less probable than this share of the best; 0 for none.",
        per_language=True,
    )
    seed: _MinusOneOrMore = _setting(
        -1,
        "sampling",
        "Seed of the draws; -1 takes a new one for each request.",
        short="-s",
        per_language=True,
    )

    # --- prompt ---------------------------------------------------------------------------------
    n_prefix: _NonNegative = _setting(
        0, "prompt", "Most prompt tokens before the cursor; 0 takes what the suffix leaves."
    )
    n_suffix: _NonNegative = _setting(
        0, "prompt", "Most prompt tokens after the cursor; 0 takes a quarter of the room."
    )
    n_prompt: _NonNegative = _setting(
        0,
        "prompt",
        "Most prompt tokens in all; 0 takes 2048, less where the model's context is smaller.",
    )
    n_jump: _NonNegative = _setting(
        256,
        "prompt",
        "Most prompt tokens that the first request at another place in a file evaluates while you "
        "type; the rest follows in idle time. 0 evaluates the whole prompt.",
    )
    fim_layout: FimLayout = _setting(
        "anchored",
        "prompt",
        "Where the middle begins: at a line above the cursor, so that a keystroke evaluates only "
        "what was typed (`anchored`), or at the cursor (`plain`).",
        aliases=("layout",),
    )
    cache_ram: _NonNegative = _setting(
        512,
        "prompt",
        "Most MiB of saved KV states of a model, by which going back to a file or place evaluates "
        "nothing; 0 saves none.",
        scope="engine",
    )
    n_context: _MinusOneOrMore = _setting(
        -1,
        "prompt",
        "Most prompt tokens of context from other files: what their declarations, your last edits "
        "and similar code say; -1 takes a quarter of the prompt, 0 none.",
    )
    healing: bool = _setting(
        True,
        "prompt",
        "Let the model say again what was typed last and hold it to that, so that no word is "
        "broken where its tokens meet; off ends the prompt at the cursor.",
    )
    fim_template: str = _setting(
        "",
        "prompt",
        "Fill-in-the-middle prompt of a model that the built-in table does not know, with "
        "{prefix}, {suffix}, and optionally {middle}, {repo}, {path}.",
        scope="engine",
    )

    # --- memory ---------------------------------------------------------------------------------
    suggestion_memory: bool = _setting(
        True,
        "memory",
        "Answer text typed as suggested from memory: with the rest of the suggestion, not with "
        "what the model would say by now; and let a running generation go on while what is typed "
        "agrees with it.",
    )
    prefetch: bool = _setting(
        True,
        "memory",
        "While a suggestion is on screen, complete what follows it in idle time; rests where that "
        "is seldom used. Off saves power.",
    )

    # --- speculation ----------------------------------------------------------------------------
    speculation: bool = _setting(
        True, "speculation", "Draft tokens and verify them; off decodes one token at a time."
    )
    drafters: str = _setting(
        "suffix,draft",
        "speculation",
        "Drafters, separated by commas; with `mode` first in order of precedence.",
        scope="engine",
        aliases=("spec_type",),
    )
    mode: DraftMode = _setting(
        "auto",
        "speculation",
        "How drafts are joined: all drafters in one `tree` or one best `chain`, `auto` for what "
        "measures faster, or `first` for the first drafter that drafts, as llama.cpp does.",
    )
    p_split: _Probability = _setting(
        0.02,
        "speculation",
        "tree: least probability of a second branch.",
        aliases=("spec_draft_p_split", "draft_p_split"),
    )
    max_draft: _Positive = _setting(
        15, "speculation", "chain and tree: most draft tokens that one pass verifies."
    )
    max_ngram_size: _Positive = _setting(
        16,
        "speculation",
        "prompt-lookup: most tokens of context that a match counts (llama.cpp's retired "
        "`spec_ngram_size_n` means this; the ngram-* drafters have sizes of their own).",
        aliases=("spec_ngram_size_n",),
    )
    min_ngram_size: _Positive = _setting(
        3, "speculation", "prompt-lookup: least tokens of context that must match."
    )
    num_pred_tokens: _Positive = _setting(
        10,
        "speculation",
        "prompt-lookup: most tokens of one draft (llama.cpp's retired `spec_ngram_size_m`).",
        aliases=("spec_ngram_size_m",),
    )
    spec_ngram_simple_size_n: _NgramSize = _setting(
        12, "speculation", "ngram-simple: tokens of context that must match.", scope="engine"
    )
    spec_ngram_simple_size_m: _NgramSize = _setting(
        48, "speculation", "ngram-simple: most tokens of one draft.", scope="engine"
    )
    spec_ngram_simple_min_hits: _Positive = _setting(
        1,
        "speculation",
        "ngram-simple: how often the context must stand in the text before it is drafted from.",
        scope="engine",
    )
    spec_ngram_map_k_size_n: _NgramSize = _setting(
        12, "speculation", "ngram-map-k: tokens of context that must match.", scope="engine"
    )
    spec_ngram_map_k_size_m: _NgramSize = _setting(
        48, "speculation", "ngram-map-k: most tokens of one draft.", scope="engine"
    )
    spec_ngram_map_k_min_hits: _Positive = _setting(
        1,
        "speculation",
        "ngram-map-k: how often the context must stand in the text before it is drafted from.",
        scope="engine",
    )
    spec_ngram_map_k4v_size_n: _NgramSize = _setting(
        12, "speculation", "ngram-map-k4v: tokens of context that must match.", scope="engine"
    )
    spec_ngram_map_k4v_size_m: _NgramSize = _setting(
        48,
        "speculation",
        "ngram-map-k4v: most tokens of one draft, and tokens by which values are told apart.",
        scope="engine",
    )
    spec_ngram_map_k4v_min_hits: _Positive = _setting(
        1,
        "speculation",
        "ngram-map-k4v: how often the context must stand in the text before it is drafted from.",
        scope="engine",
    )
    spec_ngram_mod_n_match: _NgramSize = _setting(
        24, "speculation", "ngram-mod: tokens of context that must match.", scope="engine"
    )
    spec_ngram_mod_n_min: _NgramDraftSize = _setting(
        48,
        "speculation",
        "ngram-mod: nothing is drafted where fewer tokens in a row are known.",
        scope="engine",
    )
    spec_ngram_mod_n_max: _NgramDraftSize = _setting(
        64, "speculation", "ngram-mod: most tokens of one draft.", scope="engine"
    )
    spec_ngram_cache_n_max: _Positive = _setting(
        8, "speculation", "ngram-cache: most tokens of one draft."
    )
    lookup_cache_static: list[str] = _setting(
        [],
        "speculation",
        "ngram-cache: statistics files of n-grams of two tokens, which confirm or overrule drafts; "
        "llama.cpp's or speclsp's own.",
        short="-lcs",
    )
    lookup_cache_dynamic: list[str] = _setting(
        [],
        "speculation",
        "ngram-cache: statistics files of n-grams of any length to draft from; llama.cpp's (1 to 4 "
        "tokens) or speclsp's own.",
        short="-lcd",
    )
    draft_sampling: DraftSamplingMode = _setting(
        "argmax",
        "speculation",
        "How the draft model chooses where the temperature is above 0: the most probable token, so "
        "that a seeded completion is the same as without drafts, or a drawn one, which the target "
        "accepts more often (the same distribution, by other random numbers).",
        scope="engine",
    )
    spec_draft_n_max: _NonNegative = _setting(
        3,
        "speculation",
        "draft: most tokens of one draft.",
        aliases=("draft_max", "draft_n", "draft", "draft_n_max"),
    )
    spec_draft_n_min: _NonNegative = _setting(
        0,
        "speculation",
        "draft: drafts shorter than this are dropped.",
        aliases=("draft_min", "draft_n_min"),
    )
    spec_draft_p_min: _Probability = _setting(
        0.0,
        "speculation",
        "draft: a token less probable than this ends the draft.",
        aliases=("draft_p_min",),
    )

    # --- target model ---------------------------------------------------------------------------
    model: str = _setting(
        "",
        "target model",
        "Path of the target model's GGUF; empty for the embedded one.",
        scope="engine",
        short="-m",
    )
    device: str = _setting(
        "",
        "target model",
        "Devices to offload to, separated by commas; `none` for none, empty for all.",
        scope="engine",
        short="-dev",
    )
    n_gpu_layers: GpuLayers = _setting(
        "auto",
        "target model",
        "Layers in GPU memory: a number, `all`, or `auto` (all; fewer where they do not fit).",
        scope="engine",
        aliases=("gpu_layers",),
        short="-ngl",
    )
    split_mode: SplitMode = _setting(
        "layer",
        "target model",
        "How to split the model across several GPUs.",
        scope="engine",
        short="-sm",
    )
    tensor_split: str = _setting(
        "",
        "target model",
        "Share of the model on each GPU, for example `3,1`.",
        scope="engine",
        short="-ts",
    )
    main_gpu: _NonNegative = _setting(
        0,
        "target model",
        "The GPU to use with split_mode none or row.",
        scope="engine",
        short="-mg",
    )
    override_tensor: str = _setting(
        "",
        "target model",
        "Tensors to place in a buffer type: `PATTERN=TYPE,…`, for example `blk\\.1.*=CPU`.",
        scope="engine",
        short="-ot",
    )
    cpu_moe: bool = _setting(
        False,
        "target model",
        "Keep all experts of a mixture on the CPU.",
        scope="engine",
        short="-cmoe",
    )
    n_cpu_moe: _NonNegative = _setting(
        0,
        "target model",
        "Keep the experts of the first N layers on the CPU.",
        scope="engine",
        short="-ncmoe",
    )
    ctx_size: _NonNegative = _setting(
        4096,
        "target model",
        "Positions of the KV cache; 0 takes the model's trained context.",
        scope="engine",
        aliases=("n_ctx",),
        short="-c",
    )
    batch_size: _Positive = _setting(
        2048,
        "target model",
        "Most tokens of one decode call.",
        scope="engine",
        aliases=("n_batch",),
        short="-b",
    )
    ubatch_size: _Positive = _setting(
        512,
        "target model",
        "Tokens that the backend computes at once.",
        scope="engine",
        aliases=("n_ubatch",),
        short="-ub",
    )
    threads: _MinusOneOrMore = _setting(
        -1,
        "target model",
        "CPU threads while decoding; -1 takes the physical cores, fewer for a small model.",
        scope="engine",
        aliases=("n_threads",),
        short="-t",
    )
    threads_batch: _MinusOneOrMore = _setting(
        -1,
        "target model",
        "CPU threads for batches and prompts; -1 takes `threads`.",
        scope="engine",
        aliases=("n_threads_batch",),
        short="-tb",
    )
    flash_attn: FlashAttn = _setting(
        "auto", "target model", "Flash attention.", scope="engine", short="-fa"
    )
    cache_type_k: KvCacheType = _setting(
        "f16", "target model", "Type of the KV cache's keys.", scope="engine", short="-ctk"
    )
    cache_type_v: KvCacheType = _setting(
        "f16",
        "target model",
        "Type of the KV cache's values; a quantised one needs flash attention.",
        scope="engine",
        short="-ctv",
    )
    kv_offload: bool = _setting(
        True, "target model", "Keep the KV cache in GPU memory.", scope="engine", short="-kvo"
    )
    load_mode: LoadMode = _setting(
        "auto",
        "target model",
        "How to read model files: `none`, `mlock` and `dio` read them, the others map them into "
        "memory.",
        scope="engine",
        short="-lm",
    )
    fit: bool = _setting(
        True,
        "target model",
        "Where the model does not fit the GPU, take fewer layers, then a smaller KV cache.",
        scope="engine",
    )
    fit_ctx: _Positive = _setting(
        2048,
        "target model",
        "Least positions that `fit` may leave to the KV cache.",
        scope="engine",
        short="-fitc",
    )
    sleep_idle_seconds: _MinusOneOrMore = _setting(
        900,
        "target model",
        "Seconds without a request after which the weights are freed; -1 keeps them.",
    )

    # --- draft model ----------------------------------------------------------------------------
    spec_draft_model: str = _setting(
        "",
        "draft model",
        "Path of the draft model's GGUF; empty for none, `embedded` for the one that comes with "
        "speclsp and fits the embedded target.",
        scope="engine",
        aliases=("draft_model", "model_draft"),
        short="-md",
    )
    spec_draft_device: str = _setting(
        "",
        "draft model",
        "Devices of the draft model; empty follows `device`.",
        scope="engine",
        aliases=("device_draft",),
        short="-devd",
    )
    spec_draft_ngl: GpuLayers = _setting(
        "auto",
        "draft model",
        "Layers of the draft model in GPU memory.",
        scope="engine",
        aliases=("gpu_layers_draft", "n_gpu_layers_draft", "spec_draft_n_gpu_layers"),
        short="-ngld",
    )
    spec_draft_override_tensor: str = _setting(
        "",
        "draft model",
        "As override_tensor, for the draft model.",
        scope="engine",
        aliases=("override_tensor_draft",),
        short="-otd",
    )
    spec_draft_cpu_moe: bool = _setting(
        False,
        "draft model",
        "Keep all experts of the draft model on the CPU.",
        scope="engine",
        aliases=("cpu_moe_draft",),
        short="-cmoed",
    )
    spec_draft_n_cpu_moe: _NonNegative = _setting(
        0,
        "draft model",
        "Keep the experts of the draft model's first N layers on the CPU.",
        scope="engine",
        aliases=("spec_draft_ncmoe", "n_cpu_moe_draft"),
        short="-ncmoed",
    )
    spec_draft_ctx_size: _NonNegative = _setting(
        0,
        "draft model",
        "Positions of the draft model's KV cache; 0 follows the target's.",
        scope="engine",
        aliases=("ctx_size_draft",),
        short="-cd",
    )
    spec_draft_batch_size: _Positive = _setting(
        2048,
        "draft model",
        "Most tokens of one decode call of the draft model.",
        scope="engine",
        aliases=("batch_size_draft",),
    )
    spec_draft_ubatch_size: _Positive = _setting(
        512,
        "draft model",
        "Tokens that the draft model's backend computes at once.",
        scope="engine",
        aliases=("ubatch_size_draft",),
    )
    spec_draft_threads: _MinusOneOrMore = _setting(
        -1,
        "draft model",
        "CPU threads of the draft model; -1 follows `threads`, fewer for a small model.",
        scope="engine",
        aliases=("threads_draft",),
        short="-td",
    )
    spec_draft_threads_batch: _MinusOneOrMore = _setting(
        -1,
        "draft model",
        "CPU threads of the draft model for batches; -1 follows `spec_draft_threads`.",
        scope="engine",
        aliases=("threads_batch_draft",),
        short="-tbd",
    )
    spec_draft_flash_attn: FlashAttn = _setting(
        "auto",
        "draft model",
        "Flash attention of the draft model.",
        scope="engine",
        aliases=("flash_attn_draft",),
    )
    spec_draft_type_k: KvCacheType = _setting(
        "f16",
        "draft model",
        "Type of the draft model's KV cache keys.",
        scope="engine",
        aliases=("cache_type_k_draft",),
        short="-ctkd",
    )
    spec_draft_type_v: KvCacheType = _setting(
        "f16",
        "draft model",
        "Type of the draft model's KV cache values.",
        scope="engine",
        aliases=("cache_type_v_draft",),
        short="-ctvd",
    )

    spec_replace: list[str] = _setting(
        [],
        "draft model",
        "Pairs `TARGET DRAFT` of strings, for example `<|fim_prefix|> <PRE>`: with at least one, a "
        "draft model with another vocabulary drafts through text in which these are replaced.",
        scope="engine",
    )

    # --- project --------------------------------------------------------------------------------
    index_project: bool = _setting(
        True, "project", "Scan the workspace folders so that drafts come from their files too."
    )
    max_file_size: _Positive = _setting(
        524288, "project", "Files larger than this many bytes are not indexed."
    )
    max_document_size: _Positive = _setting(
        4_000_000,
        "project",
        "Open documents of more characters get no suggestions: each key would copy them.",
    )
    max_index_tokens: _Positive = _setting(
        20_000_000,
        "project",
        "Most tokens in the project index, which takes 24 bytes of memory for each.",
    )
    max_files: _Positive = _setting(
        20000, "project", "Most files that are indexed per workspace folder."
    )
    exclude: list[str] = _setting([], "project", "More patterns to leave out, as in .gitignore.")
    mask_secrets: bool = _setting(
        True,
        "project",
        "Put a placeholder in place of passwords, keys and tokens in files and buffers, and "
        "suggest nothing on their lines, in files that look secret and in ignored ones.",
        scope="restart",
    )
    persist: bool = _setting(
        True,
        "project",
        "Keep tokens, index and accepted completions on disk between sessions; off keeps nothing.",
        scope="restart",
    )

    # --- log ------------------------------------------------------------------------------------
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "log", "Least level that reaches the log."
    )
    statistics_every: _NonNegative = _setting(
        50, "log", "Completions between two statistics blocks in the log; 0 for only at the end."
    )

    def for_language(self, language_id: str) -> Settings:
        """Return these settings with the overrides for one language id applied."""
        overrides = self.languages.get(language_id)
        if not overrides:
            return self
        return resolve([overrides], base=self).settings


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A value that could not be taken; the default or the former value stands instead."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """Settings, and what was wrong with what they came from."""

    settings: Settings
    problems: tuple[SettingProblem, ...] = ()


FIELDS: dict[str, dataclasses.Field[Any]] = {f.name: f for f in dataclasses.fields(Settings)}
TYPES: dict[str, Any] = typing.get_type_hints(Settings, include_extras=True)


def info(name: str) -> SettingInfo:
    """Return the table's row of a setting, by its canonical name."""
    return typing.cast("SettingInfo", FIELDS[name].metadata["info"])


def default(name: str) -> Any:
    """Return the default of a setting, by its canonical name."""
    row = FIELDS[name]
    if row.default_factory is not dataclasses.MISSING:
        return row.default_factory()
    return row.default


def _normal(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


_CANONICAL: dict[str, str] = {
    _normal(spelling): name for name in FIELDS for spelling in (name, *info(name).aliases)
}


_FORMER_SETTINGS: dict[str, str] = {
    "nlineend": "n_line_end is gone: set t_max_predict_ms, the milliseconds after which a "
    "suggestion ends with its line.",
}
"""Settings of former versions in normal form, and what to set instead."""

_FORMER_VALUES: dict[tuple[str, str], str] = {
    ("min_confidence", "learned"): "the threshold is no longer learned; set a number from 0 to 1",
}
"""Values that former versions took, and what to set instead."""


def former_setting(name: str) -> str | None:
    """Return what to set instead of a setting of a former version, None for any other name."""
    return _FORMER_SETTINGS.get(_normal(name))


def canonical_name(name: str) -> str | None:
    """Return the setting that a spelling means, or None.

    Snake, kebab and camel case are one, and aliases count.
    """
    return _CANONICAL.get(_normal(name))


def convert(name: str, value: Any, *, from_text: bool = False) -> Any:
    """Return ``value`` as the type of the setting ``name`` (canonical).

    ``from_text`` takes numbers and booleans in text form, as a command line gives them.
    Raises :class:`SettingsError` with the expected type and the default.
    """
    try:
        return msgspec.convert(value, TYPES[name], strict=not from_text)
    except msgspec.ValidationError as error:
        reason = _FORMER_VALUES.get((name, str(value))) or str(error).split(" - at")[0]
        raise SettingsError(
            f"setting {name}: {reason}, got {value!r}.",
            remedy=f"The default is {default(name)!r}.",
        ) from error


def resolve(layers: Sequence[Mapping[str, Any]], *, base: Settings | None = None) -> Resolution:
    """Lay wire options over ``base`` (the defaults when None), later layers over earlier ones.

    A None value means "not set".  An unknown name or wrong value is reported and left out.
    """
    values: dict[str, Any] = {}
    problems: list[SettingProblem] = []
    for layer in layers:
        for spelling, value in layer.items():
            name = canonical_name(spelling)
            if name is None:
                reason = former_setting(spelling) or f"unknown setting {spelling!r}."
                problems.append(SettingProblem(spelling, reason))
            elif value is not None:
                _take(name, value, values, problems)
    return Resolution(dataclasses.replace(base or Settings(), **values), tuple(problems))


def _take(name: str, value: Any, values: dict[str, Any], problems: list[SettingProblem]) -> None:
    try:
        converted = convert(name, value)
    except SettingsError as error:
        problems.append(SettingProblem(name, str(error)))
        return
    if name == "languages":
        converted = _checked_languages(converted, problems)
    values[name] = converted


def _checked_languages(
    languages: dict[str, dict[str, Any]], problems: list[SettingProblem]
) -> dict[str, dict[str, Any]]:
    checked: dict[str, dict[str, Any]] = {}
    for language_id, overrides in languages.items():
        checked[language_id] = {}
        for spelling, value in overrides.items():
            name = canonical_name(spelling)
            where = f"languages.{language_id}.{spelling}"
            if name is None or not info(name).per_language:
                reason = former_setting(spelling) or "not a setting that a language may override."
                problems.append(SettingProblem(where, f"{where}: {reason}"))
                continue
            try:
                checked[language_id][name] = convert(name, value)
            except SettingsError as error:
                problems.append(SettingProblem(where, f"languages.{language_id}: {error}"))
    return checked


def changed(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return the names of the settings whose values differ."""
    return tuple(n for n in FIELDS if getattr(old, n) != getattr(new, n))
