"""Options in any spelling become :class:`~speclsp.settings.Settings`.

A name may be written ``n_gpu_layers``, ``n-gpu-layers`` or ``nGpuLayers``, or by an alias.
A wrong value is reported, and the previous value is kept.  An option of llama.cpp that is
no setting, and a setting that is none any more, is reported with what to set instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec

from speclsp.errors import SettingsError
from speclsp.settings import (
    DRAFTER_OPTIONS,
    DRAFTERS,
    FIELDS,
    TYPES,
    Settings,
    default,
    info,
    leaves,
    shown_name,
)


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A wrong value; the default or the previous value is used instead."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """Settings, and what was wrong with what they came from."""

    settings: Settings
    problems: tuple[SettingProblem, ...] = ()


SHARED: dict[str, tuple[str, ...]] = {
    "draft_max": ("spec_draft_n_max",),
    "draft_min": ("spec_draft_n_min",),
    "spec_ngram_size_n": ("spec_ngram_mod_n_match", "max_ngram_size"),
    "spec_ngram_size_m": ("num_pred_tokens",),
    "spec_ngram_min_hits": (),
}
"""Settings of several drafters, and the drafters' own, which take precedence."""

_MAXIMUM_OF: dict[str, str] = {"spec_draft_n_min": "spec_draft_n_max"}
"""The maximum of each minimum.  If one of the two is given, the other's default is moved so that
the minimum is not above the maximum."""


_LEFT_TO_EACH: Final = {"draft_max": -1, "draft_min": -1}
"""Values that leave each drafter its default."""


_MOD_LENGTHS: Final = (48, 64)
"""llama.cpp's shortest and longest draft of ngram-mod."""
_CACHE_LENGTH: Final = 8
"""Longest draft of ngram-cache; most end earlier, at llama.cpp's thresholds."""


def ngram_mod_lengths(settings: Settings) -> tuple[int, int]:
    """Return the tokens of ngram-mod's shortest and longest draft.

    Each is llama.cpp's unless it is given; a maximum that is given lowers the minimum.
    """
    least, most = _MOD_LENGTHS
    n_min = settings.draft_min if settings.draft_min >= 0 else least
    n_max = settings.draft_max if settings.draft_max >= 0 else max(most, n_min)
    return min(n_min, n_max), n_max


def ngram_cache_length(settings: Settings) -> int:
    """Return the tokens of ngram-cache's longest draft."""
    return settings.draft_max if settings.draft_max >= 0 else _CACHE_LENGTH


def as_read(drafter: str, settings: Settings) -> Settings:
    """Return settings with the limits that a drafter takes where none are given."""
    if drafter == "ngram-mod":
        draft_min, draft_max = ngram_mod_lengths(settings)
        return dataclasses.replace(settings, draft_min=draft_min, draft_max=draft_max)
    if drafter == "ngram-cache":
        return dataclasses.replace(settings, draft_max=ngram_cache_length(settings))
    return settings


def _share(values: dict[str, Any]) -> None:
    """Add to ``values`` what the shared settings in it set, and the bounds that they move."""
    shared: dict[str, Any] = {}
    for word, names in SHARED.items():
        if word not in values or values[word] == _LEFT_TO_EACH.get(word):
            continue
        value = values[word]
        shared |= {name: value for name in names if name not in values}
        if word == "draft_max" and "max_draft" not in values:
            shared["max_draft"] = max(value, default("max_draft"))
    for least, most in _MAXIMUM_OF.items():
        given = {**shared, **values}
        n_most = given.get(most, default(most))
        if given.get(least, default(least)) <= n_most:
            continue
        if most not in given:
            shared[most] = given[least]
        elif least not in values:
            shared[least] = n_most
    values.update(shared)


def implied(settings: Settings, name: str) -> Any:
    """Return the value that a setting would have by the others if it was not given."""
    pairs = {**_MAXIMUM_OF, **{most: least for least, most in _MAXIMUM_OF.items()}}
    others = (*SHARED, *((pairs[name],) if name in pairs else ()))
    given = _not_default(settings, [other for other in others if other != name])
    return getattr(resolve([given]).settings, name)


def shared_only(settings: Settings) -> Settings:
    """Return what the shared settings alone would set."""
    return resolve([_not_default(settings, SHARED)]).settings


def _not_default(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in names if _is_given(settings, name)}


def _is_given(settings: Settings, name: str) -> bool:
    """Whether a setting has another value than its default, or has set a drafter's own to it."""
    value = getattr(settings, name)
    owns = SHARED.get(name, ())
    return value != default(name) or any(
        getattr(settings, own) == value != default(own) for own in owns
    )


def _normal(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


_CANONICAL: dict[str, str] = {
    _normal(spelling): name for name in FIELDS for spelling in (name, *info(name).aliases)
}


_NO_SETTINGS: dict[str, str] = {
    _normal(spelling): f"{spellings.split()[0]} is no setting: {instead}"
    for spellings, instead in {
        "hf_repo hfr": "set model to the name.",
        "hf_file": "set model to OWNER/NAME:FILE.gguf.",
        "spec_draft_hf hf_repo_draft hfrd": "set spec_draft_model to the name.",
        "hf_token": "set the environment variable HF_TOKEN, or run `hf auth login`.",
        "spec_draft_override_tensor override_tensor_draft otd": "set spec_draft_ngl, the draft "
        "model's layers on the GPU.",
        "fit_ctx": "`fit` makes the KV cache no smaller than 2,048 tokens; set ctx_size.",
        "spec_ngram_simple_size_n spec_ngram_map_k_size_n spec_ngram_map_k4v_size_n": "set "
        "spec_ngram_size_n.",
        "spec_ngram_simple_size_m spec_ngram_map_k_size_m spec_ngram_map_k4v_size_m": "set "
        "spec_ngram_size_m.",
        "spec_ngram_simple_min_hits spec_ngram_map_k_min_hits spec_ngram_map_k4v_min_hits": "set "
        "spec_ngram_min_hits.",
        "spec_ngram_mod_n_max spec_ngram_cache_n_max": "set draft_max.",
        "spec_ngram_mod_n_min": "set draft_min.",
    }.items()
    for spelling in spellings.split()
}
"""Normal spellings of llama.cpp's options that are no settings, and of former settings, with what
to set or do instead."""


class NotNeeded(NamedTuple):
    """Options of llama-server that have no meaning in a language server."""

    spellings: str
    n_values: int
    why: str


_NO_SLOTS: Final = (
    "all editor windows share one engine, which answers the requests of all documents in turn"
)
_NO_HTTP: Final = "the language server talks to its editor, not to HTTP clients"
_NO_CHAT: Final = "completions have no chat template"
NOT_NEEDED: Final = (
    NotNeeded("-np --parallel --slot-save-path", 1, _NO_SLOTS),
    NotNeeded("-cb --cont-batching -nocb --no-cont-batching --slots --no-slots", 0, _NO_SLOTS),
    NotNeeded("--host --port --path --api-prefix --api-key --api-key-file", 1, _NO_HTTP),
    NotNeeded("--ssl-key-file --ssl-cert-file -to --timeout --threads-http", 1, _NO_HTTP),
    NotNeeded("--metrics --props --webui --no-webui", 0, _NO_HTTP),
    NotNeeded("-a --alias", 1, "clients ask for no model by name"),
    NotNeeded("--chat-template --chat-template-file", 1, _NO_CHAT),
    NotNeeded("--jinja --no-jinja", 0, _NO_CHAT),
    NotNeeded(
        "--spec-default",
        0,
        "drafts are on by default; `drafters` ngram-mod gives those that it stands for alone",
    ),
    NotNeeded(
        "--spec-draft-conf-min",
        1,
        "no draft model here has a confidence head; `spec_draft_p_min` ends improbable drafts",
    ),
    NotNeeded(
        "-lzm --lazy-mode",
        1,
        "llama.cpp reads tables of more than 4 GiB in mapped files when they are needed",
    ),
    NotNeeded(
        "--cache-reuse",
        1,
        "prompts are cut so that the KV cache holds most of them, and shifting it is approximate",
    ),
)
"""They are accepted and named in one line each; all others that are unknown are errors."""

_NO_SETTINGS |= {
    _normal(spelling): f"{spelling.lstrip('-')} is not needed: {row.why}."
    for row in NOT_NEEDED
    for spelling in row.spellings.split()
    if spelling.startswith("--")
}


def instead_of(name: str) -> str | None:
    """Return what to set instead of an option of llama.cpp, or why to leave it out; else None."""
    return _NO_SETTINGS.get(_normal(name))


def canonical_name(name: str) -> str | None:
    """Return the setting that a spelling means, or None.

    Snake, kebab and camel case and aliases are accepted.
    """
    return _CANONICAL.get(_normal(name))


def convert(name: str, value: Any, *, from_text: bool = False) -> Any:
    """Return ``value`` as the type of the setting ``name`` (canonical).

    ``from_text`` takes numbers and booleans in text form, as a command line gives them.
    Raises :class:`SettingsError` with the expected type and the default.
    """
    try:
        if from_text and float in leaves(name):
            with suppress(ValueError):
                value = float(value)  # msgspec takes 0.5, but not .5
        if value == [] and isinstance(default(name), dict):
            value = {}  # as Lua sends an empty table
        converted = msgspec.convert(value, TYPES[name], strict=not from_text)
        msgspec.json.encode(converted)  # raises for lone surrogates, which no path or message has
    except UnicodeEncodeError as error:
        raise _wrong_value(name, f"expected UTF-8 text, got {_shown(name, value)}") from error
    except msgspec.ValidationError as error:
        reason = _reason(name, value, str(error))
        raise _wrong_value(name, reason) from error
    for text in converted if isinstance(converted, list) else [converted]:
        if isinstance(text, str) and "\0" in text:
            raise _wrong_value(name, f"expected text without NUL, got {_shown(name, text)}")
    if isinstance(converted, float) and not math.isfinite(converted):
        raise _wrong_value(name, f"expected a finite number, got {value!r}")
    return converted


def _wrong_value(name: str, reason: str) -> SettingsError:
    return SettingsError(
        f"setting {shown_name(name)}: {reason}.", remedy=f"The default is {default(name)!r}."
    )


def _shown(name: str, value: Any) -> str:
    return "a value that is not shown" if info(name).may_be_secret else repr(value)


def _reason(name: str, value: Any, error: str) -> str:
    """Return what is wrong with a value: msgspec's error, or the words that the setting accepts."""
    words = [leaf for leaf in leaves(name) if isinstance(leaf, str) and leaf]
    expected, _, found = error.partition(" - at")[0].partition(", got `")
    if words and not expected.startswith("Expected `int` "):  # which gives a number's bounds
        number = "a number or " if int in leaves(name) else ""
        expected, found = f"expected {number}one of {', '.join(words)}", ""
    shown = _shown(name, value)
    return f"{expected}, got `{found}: {shown}" if found else f"{expected}, got {shown}"


def resolve(layers: Sequence[Mapping[str, Any]], *, base: Settings | None = None) -> Resolution:
    """Lay options over ``base`` (the defaults when None), later layers over earlier ones.

    A None value means "not set".  An unknown name or wrong value is reported and left out.
    """
    values: dict[str, Any] = {}
    problems: list[SettingProblem] = []
    for layer in layers:
        values |= _converted(layer, problems)
    _share(values)
    return Resolution(dataclasses.replace(base or Settings(), **values), tuple(problems))


def _converted(
    options: Mapping[str, Any], problems: list[SettingProblem], language_id: str = ""
) -> dict[str, Any]:
    """Return the valid options by canonical name; with a language, those that it may override."""
    values: dict[str, Any] = {}
    for spelling, value in options.items():
        try:
            name = _named(spelling, language_id)
            if value is not None:
                values[name] = convert(name, value)
        except SettingsError as error:
            where = canonical_name(spelling) or spelling
            message = str(error)
            if language_id:
                where = f"languages.{language_id}.{where}"
                message = f"{where}: {message}"
            problems.append(SettingProblem(where, message))
    if "languages" in values:
        values["languages"] = {
            language: _converted(overrides, problems, language)
            for language, overrides in values["languages"].items()
        }
    if "drafter_options" in values:
        values = _options(values.pop("drafter_options"), problems) | values
    return values


def _options(
    by_drafter: Mapping[str, Mapping[str, Any]], problems: list[SettingProblem]
) -> dict[str, Any]:
    """Return the settings that ``drafter_options`` sets; other packages' stay as they are."""
    values: dict[str, Any] = {}
    others = {name: dict(options) for name, options in by_drafter.items()}
    for drafter in DRAFTERS:
        table = DRAFTER_OPTIONS.get(drafter, {})
        known = {_normal(option): name for option, name in table.items()}
        for option, value in others.pop(drafter, {}).items():
            where = f"drafter_options.{drafter}.{option}"
            name = known.get(_normal(option))
            if name is None:
                instead = instead_of(f"spec_{drafter}_{option}") or instead_of(option)
                has = ", ".join(table) or "none"
                message = f"{where}: {instead}" if instead else f"{where} is unknown: it has {has}."
                problems.append(SettingProblem(where, message))
                continue
            try:
                values[name] = convert(name, value)
            except SettingsError as error:
                problems.append(SettingProblem(where, str(error)))
    return values | ({"drafter_options": others} if others else {})


def _named(spelling: str, language_id: str) -> str:
    """Return the canonical name.  Raises SettingsError for a name that cannot be set."""
    name = canonical_name(spelling)
    if name is None:
        close = get_close_matches(_normal(spelling), _CANONICAL, n=1)
        meant = f" Did you mean {_CANONICAL[close[0]]}?" if close else ""
        raise SettingsError(instead_of(spelling) or f"unknown setting {spelling!r}.{meant}")
    if language_id and not info(name).per_language:
        raise SettingsError("not a setting that a language may override.")
    return name


def for_language(settings: Settings, language_id: str) -> Settings:
    """Return settings with the overrides for one language id applied."""
    overrides = settings.languages.get(language_id)
    return resolve([overrides], base=settings).settings if overrides else settings
