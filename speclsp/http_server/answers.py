"""What programs get: answers with the fields that llama-server and OpenAI's API have."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any, Final

from speclsp import __version__
from speclsp.http_server.bodies import TextBody
from speclsp.http_server.prompt_tokens import PromptTokens
from speclsp.seam.statistics import RequestStats
from speclsp.seam.text import ScoredToken, TextResult

_SIZES: Final = re.compile(r"\((\d+) tokens\) exceeds the available context size \((\d+) tokens\)")
_STOP_TYPES: Final = {
    "end": "eos",
    "word": "word",
    "limit": "limit",
    "rule": "limit",
    "none": "none",
}
"""llama-server has no word for a rule: where its own, the indentation, ends a text, it says limit.
"""


def timings(stats: RequestStats) -> dict[str, float]:
    """Return what the request cost, as llama-server tells it."""
    n_prompt, n_predicted = stats.n_prompt_evaluated, stats.n_predicted
    found: dict[str, float] = {"cache_n": stats.n_prompt - n_prompt}
    for name, n, ms in (
        ("prompt", n_prompt, stats.ms_prompt),
        ("predicted", n_predicted, stats.ms_predict),
    ):
        found[f"{name}_n"], found[f"{name}_ms"] = n, ms
        found[f"{name}_per_token_ms"] = ms / n if n else 0.0
        found[f"{name}_per_second"] = 1000 * n / ms if ms else 0.0
    if stats.n_drafted:
        found |= {"draft_n": stats.n_drafted, "draft_n_accepted": stats.n_accepted}
    return found


def scored(scores: tuple[ScoredToken, ...], prompts: PromptTokens) -> list[dict[str, Any]]:
    """Return tokens with their log-probabilities."""

    def one(token: int, logprob: float) -> dict[str, Any]:
        piece = prompts.piece(token)
        text = piece.decode("utf-8", "replace")
        return {"id": token, "token": text, "bytes": list(piece), "logprob": logprob}

    return [
        {**one(score.token, score.logprob), "top_logprobs": [one(*best) for best in score.best]}
        for score in scores
    ]


def native(
    body: TextBody, result: TextResult, prompts: PromptTokens, *, index: int = 0
) -> dict[str, Any]:
    """Return the answer of ``/infill`` and ``/completion``."""
    asked, stats = body.request, result.stats
    answer: dict[str, Any] = {
        "index": index,
        "content": "" if asked.is_streamed else result.text,
        "tokens": list(result.tokens) if body.returns_tokens and not asked.is_streamed else [],
        "id_slot": 0,
        "stop": True,
        "model": prompts.name,
        "tokens_predicted": stats.n_predicted,
        "tokens_evaluated": stats.n_prompt,
        "generation_settings": {
            **asked.settings,
            "n_predict": asked.n_predict,
            "max_tokens": asked.n_predict,
            "stop": list(asked.stops),
            "stream": asked.is_streamed,
            "n_probs": asked.n_probs,
        },
        "prompt": prompts.text(result.prompt),
        "has_new_line": "\n" in result.text,
        "truncated": False,
        "stop_type": _STOP_TYPES[result.stopped_by],
        "stopping_word": result.stopping_word,
        "tokens_cached": max(0, stats.n_prompt + stats.n_predicted - 1),
        "timings": timings(stats),
    }
    if result.scores and not asked.is_streamed:
        answer["completion_probabilities"] = scored(result.scores, prompts)
    if body.response_fields:
        answer = _picked(answer, body.response_fields)
    return answer


def native_part(text: str, n_told: int, index: int) -> dict[str, Any]:
    """Return a part of a streamed text; ``n_told`` counts the parts."""
    return {
        "index": index,
        "content": text,
        "tokens": [],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": n_told,
        "tokens_evaluated": 0,
    }


def _picked(answer: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields named, which may be paths, flat; unknown ones are left out."""
    found: dict[str, Any] = {}
    for name in names:
        value: Any = answer
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[name] = value
    return found


def _finish(result: TextResult) -> str:
    return "stop" if result.stopped_by in ("end", "word", "rule") else "length"


class OpenAIAnswer:
    """The answers to one request to ``/v1/completions``, with one id."""

    def __init__(self, prompts: PromptTokens) -> None:
        self._prompts = prompts
        self._head: dict[str, Any] = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": prompts.name,
            "system_fingerprint": f"speclsp-{__version__}",
        }

    def whole(self, results: list[TextResult]) -> dict[str, Any]:
        """Return the answer."""
        choices = [
            {
                "text": result.text,
                "index": index,
                "logprobs": {"content": scored(result.scores, self._prompts)}
                if result.scores
                else None,
                "finish_reason": _finish(result),
            }
            for index, result in enumerate(results)
        ]
        end = {**_usage(results), "timings": timings(results[0].stats)}
        return {**self._head, "choices": choices, **end}

    def part(self, text: str, index: int) -> dict[str, Any]:
        """Return a part of a streamed text."""
        return {**self._head, "choices": [_choice(text, None, index)]}

    def last(self, result: TextResult, index: int) -> dict[str, Any]:
        """Return the end of a streamed text."""
        end = {"choices": [_choice("", _finish(result), index)], **_usage([result])}
        return {**self._head, **end, "timings": timings(result.stats)}


def _choice(text: str, finish_reason: str | None, index: int) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish_reason}


def _usage(results: list[TextResult]) -> dict[str, Any]:
    stats = results[0].stats
    n_predicted = sum(result.stats.n_predicted for result in results)
    return {
        "usage": {
            "completion_tokens": n_predicted,
            "prompt_tokens": stats.n_prompt,
            "total_tokens": stats.n_prompt + n_predicted,
            "prompt_tokens_details": {"cached_tokens": stats.n_prompt - stats.n_prompt_evaluated},
        }
    }


def error(message: str, status: int, kind: str) -> dict[str, Any]:
    """Return the body of an error; of a prompt that is too long with its own kind and its sizes."""
    found: dict[str, Any] = {"code": status, "message": message, "type": kind}
    if sizes := _SIZES.search(message):
        found["type"] = "exceed_context_size_error"
        found |= {"n_prompt_tokens": int(sizes[1]), "n_ctx": int(sizes[2])}
    return {"error": found}
