"""Packages that no model of this project is trained on.

The first two groups measure the models (bits per byte, first-line exact match); the third is what
the cases of ``python -m benchmarks quality`` and ``python -m benchmarks typing`` are taken from.
"""

from __future__ import annotations

from pathlib import PurePosixPath

MEASURED_BEFORE = frozenset({"click", "flask", "werkzeug", "idlelib"})
"""Held out by the provisional models, too: neither pair was trained on them."""

MEASURED = frozenset({"jsonschema", "rich", "sortedcontainers", "trio"})
"""Held out from now on; the provisional models may have seen them."""

CASES = frozenset(
    {
        "attr",
        "attrs",
        "bullmq",
        "cachetools",
        "h11",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "immer",
        "itsdangerous",
        "jinja2",
        "markupsafe",
        "marshmallow",
        "more_itertools",
        "packaging",
        "pluggy",
        "requests",
        "starlette",
        "structlog",
        "tenacity",
        "tomlkit",
        "tqdm",
        "zod",
    }
)
"""Packages that the cases of the benches come from, and their other names."""

OWN = frozenset({"speclsp", "shop"})
"""This project and its sample project, which the demo completes."""

HELD_OUT = MEASURED_BEFORE | MEASURED | CASES | OWN


def canonical_name(name: str) -> str:
    """Return a package's name as it is spelt in :data:`HELD_OUT`."""
    return name.lower().replace("-", "_").replace(".", "_")


def held_out_package(path: str) -> str | None:
    """Return the held-out package that a file belongs to, or None.

    ``path`` is relative to the folder of the packages, with ``/``.  A vendored copy
    (``pip/_vendor/rich/table.py``) belongs to the package that it is a copy of.
    """
    parts = PurePosixPath(path).parts
    names = [*parts[:-1]]
    if len(parts) == 1 or "vendor" in parts[-2]:
        names.append(PurePosixPath(path).stem)
    for name in map(canonical_name, names):
        if name in HELD_OUT:
            return name
    return None
