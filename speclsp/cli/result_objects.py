"""What crosses the completer seam, as the headless protocol's JSON objects."""

from __future__ import annotations

import dataclasses
from typing import Any

from speclsp.request import Alternative, CompletionResult, RequestStats, SessionStats


def completion_object(
    result: CompletionResult | None, *, cancelled: bool, n_candidates: int
) -> dict[str, Any]:
    """Return the result of ``complete``.

    A request whose cancellation was confirmed says so, even where it had just ended otherwise.
    ``result`` is None where it was cancelled before it began.  Where more than one of
    ``n_candidates`` was asked for, the alternatives stand in it, and how probable each text is.
    """
    if result is None:
        result = CompletionResult(
            completion_id="", text="", finish_reason="cancelled", stats=RequestStats()
        )
    made: dict[str, Any] = {
        "text": result.text,
        "finishReason": "cancelled" if cancelled else result.finish_reason,
        "stats": stats_object(result.stats),
    }
    if n_candidates > 1:
        made |= _text_object(result)
        made["alternatives"] = [_text_object(other) for other in result.alternatives]
    return made


def _text_object(text: CompletionResult | Alternative) -> dict[str, Any]:
    mean = text.mean_logprob
    return {
        "text": text.text,
        "nReplaced": text.n_replaced,
        "meanLogprob": None if mean is None else round(mean, 4),
    }


def stats_object(stats: RequestStats) -> dict[str, Any]:
    """Return one request's statistics."""
    return {
        "nPrompt": stats.n_prompt,
        "nPromptEvaluated": stats.n_prompt_evaluated,
        "nPredicted": stats.n_predicted,
        "nTargetPasses": stats.n_target_passes,
        "nDrafted": stats.n_drafted,
        "nAccepted": stats.n_accepted,
        "drafters": {
            name: {
                "nDrafts": drafter.n_drafts,
                "nDrafted": drafter.n_drafted,
                "nAccepted": drafter.n_accepted,
            }
            for name, drafter in stats.drafters.items()
        },
        "msPrompt": round(stats.ms_prompt, 3),
        "msPredict": round(stats.ms_predict, 3),
        "msDraft": round(stats.ms_draft, 3),
    }


def session_object(stats: SessionStats) -> dict[str, Any]:
    """Return a session's statistics: every field, its name in camel case."""
    converted = _camel(stats)
    assert isinstance(converted, dict)
    return converted


def _camel(value: Any) -> Any:
    """Convert dataclasses to objects; keys of dicts are data (names of drafters) and stay."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            _camel_name(row.name): _camel(getattr(value, row.name))
            for row in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {key: _camel(member) for key, member in value.items()}
    if isinstance(value, tuple | list):
        return [_camel(member) for member in value]
    return round(value, 3) if isinstance(value, float) else value


def _camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
