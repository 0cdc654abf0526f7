"""Drafters by name, from the entry point group ``speclsp.drafters``.

A package offers a drafter with::

    [project.entry-points."speclsp.drafters"]
    NAME = "package.module:create"

where ``create(settings)`` returns a :class:`~speclsp.drafting.drafter.Drafter`.  speclsp's own
drafters are found the same way, except ``draft``, which needs the loaded draft model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from speclsp.drafting.drafter import MOST_DRAFTED, Drafter
from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.proposer import DraftLimits
from speclsp.errors import DrafterError, SettingsError, SpecLspError
from speclsp.settings import DRAFT_MODEL, DRAFTERS, FIELDS, Settings, default, info, shown_name
from speclsp.settings_resolution import SHARED, as_read, implied, shared_only

GROUP = "speclsp.drafters"
NO_DRAFTERS = "none"
_SUFFIX: Final = "suffix"
_MODE_READERS: Final = {
    "auto": ("tree", "chain and tree"),
    "tree": ("tree", "chain and tree"),
    "chain": ("chain and tree",),
    "first": (),
}
"""By mode, how the help of the settings that it reads begins."""
_OF_ALL_DRAFTERS: Final = ("draft_max", "draft_min")
_OWN_LIMITS: Final = (DRAFT_MODEL, "ngram-mod")
"""The drafters that apply the limits of their drafts themselves."""
_NGRAM_DRAFTERS: Final = [n for n, row in DRAFTERS.items() if row.most == "spec_ngram_size_m"]
"""The drafters that read the settings ``spec_ngram_*`` themselves."""
_LENGTHS: Final = (*SHARED["draft_max"], "spec_ngram_size_m", *SHARED["spec_ngram_size_m"])
"""Settings that only limit a draft's length, but for ngram-map-k4v."""
_OURS: Final = {
    "draft-simple": DRAFT_MODEL,
    "draft_simple": DRAFT_MODEL,
    **{name.replace("-", "_"): name for name in DRAFTERS if "-" in name},
}
"""Our names of drafters by llama.cpp's, and by those with underscores, as in its log."""


def load_drafters(
    settings: Settings, *, draft_model: Drafter | None
) -> tuple[list[Drafter], list[DrafterError]]:
    """Return the drafters that ``settings.drafters`` names, in its order, and what went wrong.

    ``draft_model`` is the drafter ``draft``, or None if no draft model is loaded, which the loader
    of models has reported.  A loaded one always drafts, and comes last wherever it is named, as in
    llama-server.  The second list has a problem for each drafter that cannot be made.
    """
    drafters: list[Drafter] = []
    problems: list[DrafterError] = []
    others = (name for name in drafter_names(settings.drafters) if name != DRAFT_MODEL)
    for name in (*others, DRAFT_MODEL):
        try:
            drafter = draft_model if name == DRAFT_MODEL else load_drafter(name, settings)
        except DrafterError as error:
            problems.append(error)
            continue
        if drafter is None:
            continue
        if any(drafter.name == other.name for other in drafters):
            problems.append(
                DrafterError(
                    f"drafter {name!r} calls itself {drafter.name!r}, as another one does.",
                    remedy="Take one of the two out of `drafters`.",
                )
            )
            continue
        drafters.append(drafter)
    return drafters, problems


def uses_statistics(settings: Settings) -> bool:
    """Whether drafters use n-gram statistics."""
    return settings.drafts_here and NGRAM_CACHE in drafter_names(settings.drafters)


def draft_limits(settings: Settings, name: str) -> DraftLimits:
    """Return the limits that the shared settings set for a drafter's drafts.

    Drafters with settings of their own apply those themselves.  A minimum above the most tokens
    that the drafter may draft is lowered to them, as in llama.cpp.
    """
    n_most = None if name in _OWN_LIMITS or settings.draft_max < 0 else settings.draft_max
    n_able = _longest(settings).get(name, settings.max_draft)
    if n_most is not None:
        n_able = min(n_able, n_most)
    if settings.mode != "first":
        n_able = min(n_able, settings.max_draft)
    n_least = 0 if name in _OWN_LIMITS else max(0, min(settings.draft_min, n_able))
    return DraftLimits(n_least, n_most)


def _longest(settings: Settings) -> dict[str, int]:
    """Return the most tokens of a draft by drafter, of ours."""
    return {name: getattr(as_read(name, settings), row.most) for name, row in DRAFTERS.items()}


def most_verified(settings: Settings, running: Collection[str]) -> int:
    """Return the most draft tokens of a pass: at least the ``n_min`` of each running drafter."""
    n_most = settings.max_draft
    for name in set(_OWN_LIMITS).intersection(running):
        n_most = max(n_most, getattr(as_read(name, settings), DRAFTERS[name].least))
    return n_most


def unread_settings(settings: Settings, running: Collection[str]) -> list[SettingsError]:
    """Return a problem for each drafter setting that was changed and has no effect.

    ``running`` are the names of the drafters that draft.
    """
    # A drafter that was named and cannot run is a problem of its own.
    drafting = {*running, *drafter_names(settings.drafters)}
    if settings.spec_draft_model:
        drafting.add(DRAFT_MODEL)
    elif DRAFT_MODEL not in running:
        drafting.discard(DRAFT_MODEL)
    readers = {*drafting, *_MODE_READERS[settings.mode]}
    n_most = most_verified(settings, running)
    by_shared = shared_only(settings)
    problems = _contradictions(settings, drafting)
    for drafter in sorted(set(settings.drafter_options) - set(known_names())):
        problems.append(
            SettingsError(
                f"drafter_options.{drafter} changes nothing: there is no such drafter.",
                remedy=f"Known are {', '.join(known_names())}.",
            )
        )
    for name, value in given_to_drafters(settings).items():
        unset = Settings() if name in SHARED else by_shared
        if name == "max_draft" and _SUFFIX in drafting:  # whose drafts it limits in every mode
            continue
        wanted = _readers(name, settings, by_shared, drafting)
        reading = readers.intersection(wanted)
        if not reading:
            problems.append(_unread(name, settings.drafters, wanted))
        elif (
            settings.mode != "first"
            and name in _LENGTHS
            and "ngram-map-k4v" not in reading
            and all(
                min(_longest(settings)[reader], n_most) == min(_longest(unset)[reader], n_most)
                for reader in reading
            )
        ):
            problems.append(
                SettingsError(
                    f"{shown_name(name)} = {value} changes nothing: a pass verifies "
                    f"{n_most} draft tokens at most.",
                    remedy="Raise `max_draft`, or set `mode` to `first`.",
                )
            )
    return problems


def _readers(
    name: str, settings: Settings, by_shared: Settings, drafting: Collection[str]
) -> list[str]:
    """Return the drafters, or the modes, that read a setting where they run."""
    owns: Sequence[str] = SHARED.get(name, (name,))
    implied_owns = [o for o in owns if getattr(settings, o) == getattr(by_shared, o)]
    if name in _OF_ALL_DRAFTERS:
        given = set(owns) - set(implied_owns) if name == "draft_max" else set()
        return [*(set(drafting) - {info(own).reader for own in given} or (_SUFFIX,))]
    if name in SHARED:
        owns = implied_owns or owns
    of_ngrams = _NGRAM_DRAFTERS if name in SHARED else ()
    return [*of_ngrams, *(info(own).reader for own in owns)]


def draft_model_remark(settings: Settings) -> str:
    """Return how a loaded draft model drafts beside the default drafters; "" beside others."""
    if settings.drafters != default("drafters") or settings.spec_draft_n_max == 0:
        return ""
    remark = (
        "the draft model drafts where the look-ups of `drafters` are probably wrong and its drafts "
        "pay; "
        "`--spec-type draft --mode first` makes it the only drafter, as in llama-server"
    )
    if (
        not {"spec_draft_n_max", "draft_max", "spec_draft_p_min"}
        & given_to_drafters(settings).keys()
    ):
        remark += (
            f"; its drafts have {settings.spec_draft_n_max} tokens at most (`--draft-max`) and no "
            "minimum probability (`--draft-p-min`), where llama-server's documents name 16 and 0.75"
        )
    return remark


def given_without_speculation(settings: Settings) -> SettingsError | None:
    """Return the problem of drafters' settings that are given while speculation is off."""
    given = [*given_to_drafters(settings)]
    given += [
        name
        for name in ("spec_draft_model", "drafters")
        if default(name) != getattr(settings, name)
    ]
    if settings.speculation or not given:
        return None
    return SettingsError(
        f"speculation is off, so nothing reads {', '.join(map(shown_name, given))}.",
        remedy="Leave out `--no-speculation`, or set `speculation` to true.",
    )


def given_to_drafters(settings: Settings) -> dict[str, Any]:
    """Return the drafters' settings that the others do not imply, with their values."""
    by_shared = shared_only(settings)
    given: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(settings, name)
        unset = default(name) if name in SHARED else getattr(by_shared, name)
        is_read = name in SHARED or info(name).reader
        if is_read and value != unset and value != implied(settings, name):
            given[name] = value
    return given


def _contradictions(settings: Settings, drafting: Collection[str]) -> list[SettingsError]:
    """Return a problem for each setting whose effect another one prevents."""
    problems = [*_lengths_without_effect(settings, drafting)]
    n_files = len(settings.lookup_cache_dynamic)
    takes = settings.lookup_cache_update in {"accepted", "generated"}
    if NGRAM_CACHE in drafting and takes and not n_files:
        problems.append(
            SettingsError(
                "lookup_cache_update changes nothing: no statistics file is named.",
                remedy="Name one with `lookup_cache_dynamic` (`-lcd`).",
            )
        )
    if DRAFT_MODEL in drafting and settings.spec_draft_n_min > settings.spec_draft_n_max:
        problems.append(
            SettingsError(
                "the draft model drafts nothing: drafter_options.draft.n_min "
                f"({settings.spec_draft_n_min}) is larger than drafter_options.draft.n_max "
                f"({settings.spec_draft_n_max}).",
                remedy="Lower `n_min` or raise `n_max`.",
            )
        )
    return problems


def _lengths_without_effect(
    settings: Settings, drafting: Collection[str]
) -> Iterator[SettingsError]:
    """Yield a problem for maxima of 0 or beyond what a pass holds, and minima that do not hold."""
    maxima = {name for name in SHARED["draft_max"] if getattr(settings, name) == 0}
    off = {info(name).reader for name in maxima} & set(drafting)
    if settings.draft_max == 0:
        off |= set(drafting) - {info(own).reader for own in SHARED["draft_max"]}
        maxima = {"draft_max"}
    if off:
        yield SettingsError(
            f"no drafts by {', '.join(sorted(off))}: "
            f"{' and '.join(sorted(map(shown_name, maxima)))} is 0.",
            remedy="Set the maximum number of draft tokens, or set `speculation` to false.",
        )
    if settings.draft_min > settings.draft_max > 0:
        yield SettingsError(
            f"draft_min = {settings.draft_min} is above draft_max = {settings.draft_max}, and "
            "counts as that.",
            remedy="Lower `draft_min` or raise `draft_max`.",
        )
    given = given_to_drafters(settings)
    for name, value in given.items():
        if name in {"draft_max", "max_draft", *_LENGTHS} and value > MOST_DRAFTED:
            yield SettingsError(
                f"{shown_name(name)} = {value}: a pass verifies {MOST_DRAFTED} draft tokens at "
                "most.",
                remedy=f"Set {shown_name(name)} to {MOST_DRAFTED} or less.",
            )
        is_minimum = name == "draft_min" or (
            name in SHARED["draft_min"] and info(name).reader in drafting
        )
        if is_minimum and value > 0 and settings.mode != "first":
            yield SettingsError(
                f"{shown_name(name)} = {value} drops shorter drafts; in `mode` {settings.mode} a "
                "pass verifies the part of a draft that pays, which may be shorter.",
                remedy="Set `mode` to `first` to verify drafts whole, as llama-server does.",
            )


def _unread(name: str, drafters: str, wanted: Sequence[str]) -> SettingsError:
    """Return the problem of a setting that no running drafter reads."""
    if wanted == [DRAFT_MODEL]:
        return SettingsError(
            f"{shown_name(name)} changes nothing: no draft model is loaded.",
            remedy="Name one with `spec_draft_model` (`-md`).",
        )
    if set(wanted) <= {reader for readers in _MODE_READERS.values() for reader in readers}:
        return SettingsError(
            f"{shown_name(name)} changes nothing in this `mode`.",
            remedy=f"Set `mode` to {'`auto` or `tree`' if wanted == ['tree'] else '`auto`'}.",
        )
    names = ", ".join(f"`{reader}`" for reader in dict.fromkeys(wanted))
    return SettingsError(
        f"{shown_name(name)} changes nothing: `drafters` (`--spec-type`) is "
        f"{drafters or 'none'!r}.",
        remedy=f"Add {'one of ' if ',' in names else ''}{names} to `drafters`.",
    )


def drafter_names(names: str) -> tuple[str, ...]:
    """Split a comma-separated list; doubles and upstream's ``none`` are left out."""
    stripped = (name.strip() for name in names.split(","))
    ours = (_OURS.get(name, name) for name in stripped)
    return tuple(dict.fromkeys(name for name in ours if name and name != NO_DRAFTERS))


def load_drafter(name: str, settings: Settings) -> Drafter:
    """Make the drafter that an installed package offers under ``name``.

    Raises :class:`DrafterError` for an unknown name, a package that cannot be imported, a factory
    that raises, and one that returns something else than a drafter.
    """
    entries = _entries()
    if name not in entries:
        known = known_names()
        close = get_close_matches(name, known, n=1)
        raise DrafterError(
            f"unknown drafter {name!r}.",
            remedy=f"Write {f'`{close[0]}`' if close else 'another one'} in `drafters` "
            f"(`--spec-type`); known are {', '.join(known)}.",
        )
    entry = entries[name]
    try:
        drafter = entry.load()(settings)
    except SpecLspError as error:
        raise DrafterError(
            f"drafter {name!r} cannot be used: {error.message}", remedy=error.remedy
        ) from error
    except Exception as error:
        raise DrafterError(
            f"drafter {name!r} ({entry.value}) failed to start: {type(error).__name__}: {error}.",
            remedy="Repair or update its package, or take it out of `drafters`.",
        ) from error
    return _checked(drafter, name, entry)


def known_names() -> tuple[str, ...]:
    """Return the names that ``drafters`` may hold, in alphabetical order."""
    return tuple(sorted({*_entries(), DRAFT_MODEL}))


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _checked(drafter: object, name: str, entry: EntryPoint) -> Drafter:
    calls = ("begin", "draft", "accept")
    missing = [call for call in calls if not callable(getattr(drafter, call, None))]
    if not isinstance(getattr(drafter, "name", None), str):
        missing.append("name")
    if missing:
        raise DrafterError(
            f"drafter {name!r} ({entry.value}) is no drafter: it lacks {', '.join(missing)}.",
            remedy="See speclsp.drafting.drafter.Drafter for what a drafter has.",
        )
    return drafter  # type: ignore[return-value]  # checked above, which mypy cannot follow
