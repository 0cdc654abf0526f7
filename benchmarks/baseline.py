"""What ``quality`` compares with: a plain client of a fill-in-the-middle model.

Everything that this project adds to the model's own answer is switched off, but for the rules that
end a text and fit it to what follows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, get_args

from speclsp.settings import FimLayout, Settings

SWITCHED_OFF: Final[dict[str, Any]] = {
    "healing": False,
    "speculation": False,
    "n_context": 0,
    "min_confidence": 0.0,
    "suggestion_memory": False,
    "prefetch": False,
    "automatic_filters": False,
    "debounce_ms": 0,
}
"""Settings of every baseline."""

LAYOUTS: Final[tuple[FimLayout, ...]] = get_args(FimLayout)


def baselines(settings: Settings) -> dict[str, Settings]:
    """Return the baselines' settings by name: one for each layout of the prompt."""
    return {
        f"{layout} baseline": dataclasses.replace(settings, **SWITCHED_OFF, fim_layout=layout)
        for layout in LAYOUTS
    }
