"""What leaves an editor's buffers: texts without secrets, and none of files that are private.

The masked text differs in length from the buffer, but never on the cursor's line: on a line that
holds a secret nothing is asked.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from speclsp.masking.masked_text import MaskedText, before_secret, holds_secret
from speclsp.request import Alternative, CompletionRequest, CompletionResult, Document
from speclsp.settings import Settings
from speclsp.workspace.secrets import is_secret_path

_MAX_TEXTS: Final = 64
"""Texts whose lines are known; the least recently used beyond that are looked at anew."""


class PrivateText:
    """Any thread may call it.  With ``mask_secrets`` off everything passes as it is."""

    def __init__(self, settings: Settings, is_ignored: Callable[[str], bool]) -> None:
        """``is_ignored`` takes a file's absolute path."""
        self._is_on = settings.mask_secrets
        self._is_ignored = is_ignored
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[str, str], MaskedText] = OrderedDict()

    def document(self, document: Document) -> Document:
        """Return a buffer without its secrets; one that is private has no text."""
        if not self._is_on:
            return document
        if self._is_private(document.path, document.file):
            return dataclasses.replace(document, text="")
        with self._lock:
            text = self._text("buffer", document.uri, document.path)
            text.update(document.text)
            return dataclasses.replace(document, text=text.text)

    def request(self, request: CompletionRequest) -> CompletionRequest | None:
        """Return a request without secrets, or None where nothing may be asked."""
        if not self._is_on:
            return request
        if self._is_private(request.path, request.file):
            return None
        whole = request.prefix + request.suffix
        with self._lock:
            text = self._text("buffer", request.uri, request.path)
            if text.raw != whole:
                # Not the buffer's newest version, or a notebook's cell among the others.
                text = self._text("request", request.uri, request.path)
                text.update(whole)
            parts = text.split(len(request.prefix))
        if parts is None:
            return None
        prefix, suffix = parts
        return dataclasses.replace(request, prefix=prefix, suffix=suffix)

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


def cut_before_secrets(request: CompletionRequest, result: CompletionResult) -> CompletionResult:
    """Return a result whose texts end before the first secret or placeholder in them."""
    line_before = request.prefix[request.prefix.rfind("\n") + 1 :]
    text = before_secret(result.text, line_before, request.path)
    alternatives: list[Alternative] = []
    for other in result.alternatives:
        cut = before_secret(other.text, line_before, request.path)
        if cut == other.text:
            alternatives.append(other)
        elif cut and cut != text:
            alternatives.append(dataclasses.replace(other, text=cut, n_replaced=0))
    return dataclasses.replace(
        result,
        text=text,
        # What would have replaced closed brackets stood at the end that was cut off.
        n_replaced=result.n_replaced if text == result.text else 0,
        alternatives=tuple(alternatives),
    )


def may_be_learned(settings: Settings, before: str, text: str, path: str) -> bool:
    """Whether an accepted text may be kept: whether it holds no secret, with what is before it."""
    return not settings.mask_secrets or not holds_secret(before + text, path)
