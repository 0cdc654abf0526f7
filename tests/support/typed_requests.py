"""Requests and results written as text with the cursor at ¦."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
from shared_engine import AcrossSocket

from speclsp.completer.explaining import PromptExplanation
from speclsp.completer.local import LocalCompleter
from speclsp.errors import SpecLspError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import (
    CompletionRequest,
    CompletionResult,
    GeneratedText,
    PlacedCompletion,
)
from speclsp.seam.documents import Document
from speclsp.seam.request import PlacedRequest
from speclsp.seam.statistics import RequestStats
from speclsp.settings import FIELDS, Settings
from speclsp.window.window import Window


def request_at(text: str, **fields: Any) -> PlacedCompletion:
    prefix, suffix = text.split("¦")
    return request_between(prefix, suffix, **{"language_id": "python", **fields})


_OF_REQUEST = {*CompletionRequest.__struct_fields__}


def request_between(prefix: str, suffix: str = "", **fields: Any) -> PlacedCompletion:
    """Return a request; fields that are settings become its own settings."""
    of_document = {"path": "a.py", "repo_name": "p", "language_id": "", "file": "", "workspace": ""}
    of_document |= {name: fields.pop(name) for name in of_document if name in fields}
    own = {name: fields.pop(name) for name in {*FIELDS} - _OF_REQUEST if name in fields}
    known: dict[str, Any] = {
        "uri": "file:///p/a.py",
        "version": 1,
        "offset": len(prefix),
        "settings": own,
    }
    return PlacedRequest(
        plain=CompletionRequest(**{**known, **fields}),
        text=prefix + suffix,
        cursor=len(prefix),
        **of_document,
    )


def document_of(text: str, **fields: Any) -> Document:
    """Return a document; what is not given is as in :func:`request_between`, without a file."""
    plain = {"uri": "file:///p/a.py", "path": "a.py", "language_id": "", "version": 1}
    return Document(**{**plain, **fields}, text=text)


def remade(request: PlacedCompletion, **fields: Any) -> PlacedCompletion:
    """Return a placed request with other fields of the plain one."""
    plain = msgspec.structs.replace(request.plain, **fields)
    return dataclasses.replace(request, plain=plain)


def result_of(
    text: str,
    *,
    completion_id: str = "first",
    alternatives: tuple[GeneratedText, ...] = (),
    **fields: Any,
) -> CompletionResult:
    """Return a result of one target pass; ``fields`` are those of its text."""
    generated = GeneratedText(completion_id=completion_id, text=text, **fields)
    stats = RequestStats(n_target_passes=1)
    return CompletionResult(generated=generated, stats=stats, alternatives=alternatives)


def answer_of(
    ask: Callable[[], Future[CompletionResult]], wait_s: float = 60.0
) -> CompletionResult:
    """Ask until there is an engine, and again where it dies meanwhile."""
    end = time.monotonic() + wait_s
    while True:
        try:
            result = ask().result(wait_s)
        except SpecLspError:
            if time.monotonic() > end:
                raise
        else:
            if result.generated.finish_reason != "cancelled":
                return result
            assert time.monotonic() < end, "every request was cancelled"
        time.sleep(0.01)


is_across_socket = False
"""Whether :func:`typed_completer` puts a socket between the window and its completer."""


def typed_completer(
    settings: Settings, *, loader: Any = None, clock: Any = time.perf_counter
) -> TypedWindow:
    """Return a completer behind a window, in this process or across a socket."""
    made = AcrossSocket if is_across_socket else LocalCompleter
    completer = made(settings, loader=loader, clock=clock)
    return TypedWindow(Window(completer, settings, clock=clock))


class TypedWindow:
    """A window that is asked by whole texts: it brings the document to each before.

    What it does not know itself its completer does.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self._versions = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        of = self.window if hasattr(self.window, name) else self.window.completer
        return getattr(of, name)

    def brought_to(self, request: PlacedCompletion) -> CompletionRequest:
        """Open or change the request's document; returns the request in it."""
        version = next(self._versions)
        document = Document(
            uri=request.uri,
            path=request.path,
            file=request.file,
            repo_name=request.repo_name,
            language_id=request.language_id,
            version=version,
            text=request.text,
        )
        known = self.window.document(request.uri)
        same = known is not None and dataclasses.replace(
            document, version=known.version, text=known.text
        )
        if known is not None and known == same:
            self.window.change_document(request.uri, version, request.text)
        else:
            self.window.open_document(document)
        return msgspec.structs.replace(request.plain, version=version)

    def complete(
        self, request: PlacedCompletion, cancel: CancellationToken
    ) -> Future[CompletionResult]:
        return self.window.ask(self.brought_to(request), cancel)

    def debounce_ms(self, request: PlacedCompletion) -> float:
        placed = self.window._place(self.brought_to(request))
        assert isinstance(placed, PlacedRequest)
        return self.window._debounce_ms(placed)

    def explain(self, request: PlacedCompletion) -> Future[PromptExplanation]:
        masked = self.window.masked_request(self.brought_to(request))
        assert isinstance(masked, CompletionRequest)
        completer = self.window.completer
        assert isinstance(completer, (LocalCompleter, AcrossSocket))
        return completer.explain(masked)

    def change_document(self, document: Document) -> None:
        self.window.change_document(document.uri, document.version, document.text)
