"""Requests and results written as text with the cursor at ¦."""

from __future__ import annotations

from typing import Any

from speclsp.request import CompletionRequest, CompletionResult, RequestStats


def request_at(text: str, **fields: Any) -> CompletionRequest:
    prefix, suffix = text.split("¦")
    known: dict[str, Any] = {
        "uri": "file:///p/a.py",
        "path": "a.py",
        "repo_name": "p",
        "language_id": "python",
    }
    return CompletionRequest(prefix=prefix, suffix=suffix, **{**known, **fields})


def result_of(text: str, **fields: Any) -> CompletionResult:
    known: dict[str, Any] = {
        "completion_id": "first",
        "finish_reason": "stop",
        "stats": RequestStats(n_target_passes=1),
    }
    return CompletionResult(text=text, **{**known, **fields})
