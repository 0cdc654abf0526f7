"""The params of the headless methods.

The types and bounds of what one request may override are those of the settings' table.
"""

from __future__ import annotations

from typing import Any

import msgspec

from speclsp import settings
from speclsp.cli.json_rpc import CallId
from speclsp.request import Trigger

REQUEST_SETTINGS = (
    "max_lines",
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "deadline_ms",
)
"""Settings that one request may override."""

CompleteParams = msgspec.defstruct(
    "CompleteParams",
    [
        ("prefix", str),
        ("suffix", str, ""),
        ("path", str, ""),
        ("repo_name", str | None, None),
        ("language_id", str, ""),
        ("single_line", bool | None, None),
        ("n_candidates", settings.TYPES["n_candidates"], 1),
        ("trigger", Trigger, "invoked"),
        *((name, settings.TYPES[name] | None, None) for name in REQUEST_SETTINGS),
    ],
    rename="camel",
    forbid_unknown_fields=True,
    frozen=True,
)
"""The params of ``complete``; what is None takes the settings' value.

Whoever sends a request by a pipe wants an answer, so it counts as invoked unless it says otherwise.
"""


class CancelParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The params of ``cancel``: the id of the request to cancel."""

    id: CallId


class NoParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A method without params."""


METHODS: dict[str, type[Any]] = {
    "complete": CompleteParams,
    "cancel": CancelParams,
    "statistics": NoParams,
    "shutdown": NoParams,
}
"""Each method's params."""
