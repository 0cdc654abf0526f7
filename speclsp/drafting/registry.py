"""Drafters by name, from the entry point group ``speclsp.drafters``.

A package offers a drafter with::

    [project.entry-points."speclsp.drafters"]
    NAME = "package.module:create"

where ``create(settings)`` returns a :class:`~speclsp.drafting.protocol.Drafter`.  The drafters of
speclsp itself are found the same way.  Only ``draft`` is handed in, since it needs the draft model.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from speclsp.drafting.ngram_cache import NAME as NGRAM_CACHE
from speclsp.drafting.protocol import Drafter
from speclsp.errors import DrafterError, SpecLspError
from speclsp.settings import Settings

GROUP = "speclsp.drafters"
DRAFT_MODEL = "draft"
NO_DRAFTERS = "none"
UPSTREAM_NAMES = {"draft-simple": DRAFT_MODEL}
"""What llama.cpp's ``--spec-type`` calls drafters that have another name here."""


def load_drafters(
    settings: Settings, *, draft_model: Drafter | None
) -> tuple[list[Drafter], list[DrafterError]]:
    """Return the drafters that ``settings.drafters`` names, in its order, and what went wrong.

    ``draft_model`` is the drafter behind the name ``draft``, None where no draft model is loaded:
    the name is then passed over in silence, since whoever loads models has reported that.
    A drafter that cannot be had is a problem in the second list, and the others still work.
    """
    drafters: list[Drafter] = []
    problems: list[DrafterError] = []
    for name in drafter_names(settings.drafters):
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
    """Whether drafts come from n-gram statistics: without being named, where drafts are merged.

    With ``mode`` ``first`` drafters have an order of precedence, in which each is named.
    """
    names = drafter_names(settings.drafters)
    return settings.speculation and (
        NGRAM_CACHE in names or (bool(names) and settings.mode != "first")
    )


def drafter_names(names: str) -> tuple[str, ...]:
    """Split a comma-separated list; doubles and upstream's ``none`` are left out."""
    stripped = (name.strip() for name in names.split(","))
    ours = (UPSTREAM_NAMES.get(name, name) for name in stripped)
    return tuple(dict.fromkeys(name for name in ours if name and name != NO_DRAFTERS))


def load_drafter(name: str, settings: Settings) -> Drafter:
    """Make the drafter that an installed package offers under ``name``.

    Raises :class:`DrafterError` for an unknown name, a package that cannot be imported, a factory
    that raises, and one that returns something else than a drafter.
    """
    entries = _entries()
    if name not in entries:
        known = ", ".join(known_names())
        raise DrafterError(f"unknown drafter {name!r}.", remedy=f"Known drafters: {known}.")
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
            remedy="See speclsp.drafting.protocol.Drafter for what a drafter has.",
        )
    return drafter  # type: ignore[return-value]  # checked above, which mypy cannot follow
