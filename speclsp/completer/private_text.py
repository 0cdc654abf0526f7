"""What leaves an editor's buffers: texts without secrets, and none of files that are private.

The masked text differs in length from the buffer, but never on the cursor's line: on a line that
holds a secret nothing is asked.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from speclsp.request import Alternative, CompletionRequest, CompletionResult, Document
from speclsp.secrets.masked_text import MaskedText, before_secret, holds_secret
from speclsp.secrets.paths import is_secret_path
from speclsp.settings import Settings
from speclsp.text.confidence import Fit

_MAX_TEXTS: Final = 64
"""Texts whose lines are known; the least recently used beyond that are looked at anew."""

_AT_ONCE: Final = 32_768
"""Characters that are looked at where somebody waits, in 2 ms; more is left to ``look_through``."""

Refusal: TypeAlias = Literal["private", "unknown"]
"""Why a request has no masked text: nothing may be asked, or nobody knows yet."""


class PrivateText:
    """Any thread may call it.  With ``mask_secrets`` off everything passes as it is.

    What nobody has looked at yet does not pass.
    """

    def __init__(self, settings: Settings, is_ignored: Callable[[str], bool]) -> None:
        """``is_ignored`` takes a file's absolute path."""
        self._is_on = settings.mask_secrets
        self._is_ignored = is_ignored
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[str, str], MaskedText] = OrderedDict()

    def document(self, document: Document) -> Document | None:
        """Return a buffer without its secrets; one that is private has no text.

        None where that takes so long that ``look_through`` has to be called before.
        """
        if not self._is_on:
            return document
        if self._is_private(document.path, document.file):
            return dataclasses.replace(document, text="")
        with self._lock:
            text = self._text("buffer", document.uri, document.path)
            if not text.update(document.text, n_most=_AT_ONCE):
                return None
            return dataclasses.replace(document, text=text.text)

    def request(self, request: CompletionRequest) -> CompletionRequest | Refusal:
        """Return a request without secrets, or why there is none.

        What is unknown is known after ``look_through`` was called.
        """
        if not self._is_on:
            return request
        if self._is_private(request.path, request.file):
            return "private"
        whole = request.prefix + request.suffix
        with self._lock:
            text = self._text("buffer", request.uri, request.path)
            if text.raw != whole:
                # Not the buffer's newest version, or with a popup's item selected, or a notebook's
                # cell among the others: it resembles the buffer, or what was asked last.
                candidates = self._text("request", request.uri, request.path), text.copy()
                known = (text for text in candidates if text.update(whole, n_most=_AT_ONCE))
                text = next(known, text)
                if text.raw != whole:
                    return "unknown"
                self._texts["request", request.uri] = text
            parts = text.split(len(request.prefix))
        if parts is None:
            return "private"
        prefix, suffix = parts
        return dataclasses.replace(request, prefix=prefix, suffix=suffix)

    def look_through(self, asked: Document | CompletionRequest) -> None:
        """Look at all of a buffer's or a request's text; nobody else waits for that."""
        is_buffer = isinstance(asked, Document)
        whole = asked.text if isinstance(asked, Document) else asked.prefix + asked.suffix
        kind = "buffer" if is_buffer else "request"
        with self._lock:
            text = self._text(kind, asked.uri, asked.path).copy()
        text.update(whole)
        with self._lock:
            self._texts.pop((kind, asked.uri), None)
            self._texts[kind, asked.uri] = text  # the last one to be dropped

    def reason(self, request: CompletionRequest) -> str:
        """Say why nothing may be asked."""
        if is_secret_path(request.path):
            return "the file looks as if it held secrets"
        if request.file and self._is_ignored(request.file):
            return ".gitignore or the setting exclude leaves the file out"
        return "the line holds a secret"

    def forget(self, uri: str) -> None:
        """Forget a buffer that was closed."""
        with self._lock:
            for kind in ("buffer", "request"):
                self._texts.pop((kind, uri), None)

    def _is_private(self, path: str, file: str) -> bool:
        return is_secret_path(path) or bool(file and self._is_ignored(file))

    def _text(self, kind: str, uri: str, path: str) -> MaskedText:
        text = self._texts.pop((kind, uri), None) or MaskedText(path)
        self._texts[kind, uri] = text
        while len(self._texts) > _MAX_TEXTS:
            self._texts.popitem(last=False)
        return text


def cut_before_secrets(
    request: CompletionRequest, result: CompletionResult, fit: Fit
) -> CompletionResult:
    """Return a result whose texts end before the first secret or placeholder in them.

    What is left is fitted to the text around the cursor by ``fit``.
    """
    line_before = request.prefix[request.prefix.rfind("\n") + 1 :]
    text, n_replaced = result.text, result.n_replaced
    kept = before_secret(text, line_before, request.path)
    if kept != text:
        # What closed brackets or replaced closed ones stood at the end that was cut off.
        fitted = fit(kept)
        text, n_replaced = fitted.text, fitted.n_replaced
    alternatives: list[Alternative] = []
    for other in result.alternatives:
        cut = before_secret(other.text, line_before, request.path)
        if cut == other.text:
            alternatives.append(other)
        elif (fitted := fit(cut)).text and fitted.text != text:
            alternatives.append(
                dataclasses.replace(other, text=fitted.text, n_replaced=fitted.n_replaced)
            )
    return dataclasses.replace(
        result,
        text=text,
        n_replaced=n_replaced,
        alternatives=tuple(alternatives),
    )


def may_be_learned(settings: Settings, before: str, text: str, path: str) -> bool:
    """Whether an accepted text may be kept: whether it holds no secret, with what is before it."""
    return not settings.mask_secrets or not holds_secret(before + text, path)
