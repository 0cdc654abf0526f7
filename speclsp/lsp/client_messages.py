"""What the small client says of itself, and how it reads progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from speclsp.request import Progress


def capabilities() -> types.ClientCapabilities:
    """Return what the client can do."""
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(
            position_encodings=[types.PositionEncodingKind.Utf32]
        ),
        text_document=types.TextDocumentClientCapabilities(
            inline_completion=types.InlineCompletionClientCapabilities(),
            synchronization=types.TextDocumentSyncClientCapabilities(did_save=True),
        ),
        workspace=types.WorkspaceClientCapabilities(configuration=True, workspace_folders=True),
        window=types.WindowClientCapabilities(work_done_progress=True),
    )


def progress_of(params: types.ProgressParams) -> Progress:
    """Return a step of work-done progress as the seam has it."""
    value = params.value
    data: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    return Progress(
        token=str(params.token),
        stage=data.get("kind", "report"),
        title=data.get("title") or "",
        message=data.get("message") or "",
        percentage=data.get("percentage"),
    )
