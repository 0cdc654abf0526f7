"""What is compared: each drafter alone, all of the settings' drafters merged, and none."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from speclsp.drafting.calibration import Calibration
from speclsp.drafting.chain import DrafterChain
from speclsp.drafting.merger import DraftMerger, MergeMode
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.protocol import Drafter
from speclsp.drafting.registry import DRAFT_MODEL, drafter_names, known_names, load_drafter
from speclsp.drafting.suffix import NAME as SUFFIX
from speclsp.drafting.suffix import SuffixDrafter
from speclsp.settings import Settings

OFF: Final = "off"
MERGED: Final = "merged"
LLAMA_CPP: Final = frozenset(
    ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
)
"""Drafters that do what llama.cpp's do."""


@dataclass(frozen=True, slots=True)
class DrafterChoice:
    """One row of a comparison.

    Drafters are made anew for each completion, since some keep what they saw, and would see a
    file whose lines another cursor takes out.  What is learned of probabilities goes on.
    """

    name: str
    settings: Settings
    drafters: tuple[str, ...] = ()
    mode: MergeMode | None = None
    """How they are merged; None for a drafter alone."""
    calibration: Calibration = dataclasses.field(default_factory=Calibration)

    @property
    def keeps_no_text(self) -> bool:
        """Whether its drafters may serve one completion after another; see above."""
        return set(self.drafters) <= {SUFFIX, DRAFT_MODEL}

    def proposer(self, draft_model: Drafter | None = None) -> Proposer | None:
        """Return what drafts; None where nothing does.

        Raises :class:`~speclsp.errors.DrafterError` for a drafter that cannot be had.
        """
        drafters: list[Drafter] = []
        for name in self.drafters:
            if name == SUFFIX:
                n_draft = self.settings.max_draft
                drafters.append(SuffixDrafter(n_draft=n_draft, calibration=self.calibration))
            elif name != DRAFT_MODEL:
                drafters.append(load_drafter(name, self.settings))
            elif draft_model is not None:
                drafters.append(draft_model)
        if not drafters:
            return None
        if self.mode is None:
            return DrafterChain(drafters)
        return DraftMerger(
            drafters,
            self.calibration,
            mode=self.mode,
            p_split=self.settings.p_split,
            n_max=self.settings.max_draft,
        )


def single_choices(settings: Settings) -> list[DrafterChoice]:
    """Return each installed drafter alone, but for the draft model."""
    names = [name for name in known_names() if name != DRAFT_MODEL]
    return [DrafterChoice(name, settings, (name,)) for name in names]


def merged_choice(settings: Settings, mode: MergeMode) -> DrafterChoice:
    """Return the settings' drafters, merged in a mode."""
    return DrafterChoice(f"{MERGED} {mode}", settings, drafter_names(settings.drafters), mode)
