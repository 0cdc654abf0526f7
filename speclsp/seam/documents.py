"""Documents, their edits and their folders, as they cross the completer seam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

from speclsp.common_ends import common_head, common_tail

Range: TypeAlias = tuple[int, int]
"""Characters of a text, from the first number to before the second."""
Ranges: TypeAlias = tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of an open document.  ``path`` is relative to its workspace folder, with slashes.

    ``repo_name`` is the repository's name in prompts, and ``file`` the absolute path of the
    document's file, "" where it has none.  ``workspace`` names its folder to an engine on another
    machine, which has no folders; "" elsewhere.
    """

    uri: str
    text: str
    path: str = ""
    language_id: str = ""
    version: int = 1
    file: str = ""
    repo_name: str = ""
    workspace: str = ""

    def edited(self, version: int, edit: TextEdit) -> Document:
        """Return the next version."""
        return replace(self, version=version, text=edit.applied_to(self.text))


@dataclass(frozen=True, slots=True)
class TextEdit:
    """``text`` in place of the characters ``start`` to ``end`` (code points) of a document."""

    start: int
    end: int
    text: str

    def applied_to(self, text: str) -> str:
        """Return a document's text after the edit."""
        return text[: self.start] + self.text + text[self.end :]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedText:
    """The accepted part ``text`` of a suggestion, and ``before``, the last lines before it."""

    path: str
    file: str
    before: str
    text: str
    uri: str = ""
    """The document's; empty for a text without one."""
    workspace: str = ""
    """As of a :class:`Document`."""

    @property
    def whole(self) -> str:
        """The text with the lines before it, as it is learned."""
        return self.before + self.text

    @property
    def name(self) -> str:
        """The name of the whole text, by which it can be forgotten; see :func:`name_of`."""
        return name_of(self.whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFolder:
    """A folder whose files feed the drafters.  ``name`` is the repository name in prompts."""

    root: str
    name: str


def name_of(text: str) -> str:
    """Return a name that only who knows the text can tell: its BLAKE2b hash."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def edit_between(old: str, new: str, *, cursor: int | None = None) -> TextEdit:
    """Return the shortest edit that makes ``old`` into ``new``.

    With a ``cursor`` in ``new`` the edit reaches at least to it.
    """
    n_head = common_head(old, new, len(new) if cursor is None else cursor)
    n_most = min(len(old), len(new)) - n_head
    if cursor is not None:
        n_most = min(n_most, len(new) - cursor)
    n_tail = common_tail(old, new, n_most)
    return TextEdit(n_head, len(old) - n_tail, new[n_head : len(new) - n_tail])


def shortest_edit(old: str, new: str, edit: TextEdit | None) -> TextEdit:
    """Return the shortest edit that makes ``old`` into ``new``.

    ``edit`` is one that does so, if any is known: then only what it replaces is compared.
    """
    if edit is None or len(edit.text) - (edit.end - edit.start) != len(new) - len(old):
        return edit_between(old, new)
    inner = edit_between(old[edit.start : edit.end], edit.text)
    return TextEdit(edit.start + inner.start, edit.start + inner.end, inner.text)
