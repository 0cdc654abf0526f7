"""Models by name in an editor: which ones fit, download, and choice.

A model is downloaded when the editor sends ``speclsp.pullModel``, or when the user accepts the
server's offer.  Nothing else starts a download.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from speclsp import embedded
from speclsp.backends.memory import Memory, find_memory
from speclsp.errors import DownloadCancelledError, ModelNotFoundError, SettingsError, SpecLspError
from speclsp.lsp.editor import Editor, ProgressReporter
from speclsp.model_title import model_title
from speclsp.models.choice import (
    Choice,
    choice_of,
    edit_choice_of,
    is_on_hub,
    named,
    preset_rows,
    with_edit_path,
    with_paths,
    without_names,
)
from speclsp.models.presets import AUTO, PRESETS, recommend
from speclsp.seam.events import Progress
from speclsp.settings import Settings

_DOWNLOAD: Final = "Download"
_NOT_NOW: Final = "Not now"
_TRIAL: Final = "the small trial model completes"
_MINUTES_FROM_S: Final = 100
"""The time left of a download is given in minutes from so many seconds on."""


class NamedModels:
    """Replaces models' names in the settings by file paths, and downloads missing models."""

    def __init__(
        self,
        editor: Editor,
        progress: ProgressReporter,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        apply_settings: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        """``report`` shows a message to the user once."""
        self._editor = editor
        self._progress = progress
        self._spawn = spawn
        self._apply_settings = apply_settings
        self._report = report
        self._memory: Memory | None = None
        self._running_preset = ""
        """The preset of an engine that other windows use, which ``auto`` joins."""
        self._offered: set[str] = set()
        self._downloads: dict[str, threading.Event] = {}
        """By progress token: set to cancel."""
        self._resolved = Settings()

    # --- settings ---------------------------------------------------------------------------------

    async def prepare(self, settings: Settings) -> None:
        """Find the running engines and the memory if the settings choose a model by these."""
        if settings.model == AUTO and self._memory is None:
            self._running_preset = await asyncio.to_thread(_running_preset)
            self._memory = await self.memory()

    def resolve(self, settings: Settings) -> Settings:
        """Return settings with file paths; a missing model is left out and offered for download."""
        plain, in_use, memory = without_names(settings), self._resolved, self._memory
        if settings.model == AUTO and memory is None:  # it was set while the server runs
            self._spawn(self._prepare_later(settings))
            return replace(
                plain,
                model=in_use.model,
                spec_draft_model=in_use.spec_draft_model,
                edit_model=in_use.edit_model,
            )
        if settings.model == AUTO and self._running_preset:
            settings = replace(settings, model=self._running_preset)
        self._resolved, choice = plain, None
        try:
            choice = choice_of(settings, lambda: memory or find_memory())
            self._resolved = with_paths(settings, choice)
        except ModelNotFoundError as error:
            assert choice is not None
            self._offer(choice, settings, error)
        except SettingsError as error:
            self._report(str(error))
            self._resolved = replace(plain, model="", spec_draft_model="")
        self._resolved = self._with_edit_model(settings, self._resolved)
        return self._resolved

    def _with_edit_model(self, settings: Settings, resolved: Settings) -> Settings:
        """Return settings with the next-edit model's path; without it the target is asked."""
        choice = None
        try:
            choice = edit_choice_of(settings)
            return with_edit_path(resolved, choice)
        except ModelNotFoundError as error:
            assert choice is not None
            self._offer(choice, settings, error, is_for_edits=True)
        except SettingsError as error:
            self._report(str(error))
        return replace(resolved, edit_model="")

    async def _prepare_later(self, settings: Settings) -> None:
        await self.prepare(settings)
        self._apply_settings()

    # --- commands ---------------------------------------------------------------------------------

    async def memory(self) -> Memory:
        """Return the memory for models; what the loaded ones take counts as free."""
        found = await asyncio.to_thread(find_memory)
        used = self._resolved
        files = (Path(name) for name in (used.model, used.spec_draft_model, used.edit_model))
        own = sum(path.stat().st_size for path in files if path.is_file())
        return replace(found, free_bytes=min(found.free_bytes + own, found.total_bytes))

    async def overview(self, settings: Settings) -> dict[str, Any]:
        """Return the memory, the presets with what fits it, and the model in use."""
        memory = await self.memory()
        presets = await asyncio.to_thread(preset_rows, memory)
        target, engine_url = self._resolved.model, self._resolved.engine_url
        title = model_title(target) if target else embedded.TITLE
        if engine_url:
            title = self._resolved.engine_host or "remote engine"
        return {
            "memory": msgspec.to_builtins(memory),
            "recommended": recommend(memory),
            "presets": presets,
            "current": {
                "name": settings.model if is_on_hub(settings.model) else "",
                "title": title,
                "path": target,
                "is_trial": not (target or engine_url),
            },
        }

    async def pull(self, name: str) -> list[str]:
        """Download the models of a name, and return the paths of their first files.

        Raises :class:`~speclsp.errors.SpecLspError`.
        """
        choice = await asyncio.to_thread(named, name)
        await self._pull(choice)
        return [str(parts[0]) for parts in choice.files().values()]

    async def downloaded(self, name: str) -> Choice:
        """Return the models of a name, which must be downloaded.

        Raises :class:`~speclsp.errors.SpecLspError`.
        """
        memory = await self.memory() if name == AUTO else None
        choice = named(name, lambda: memory or find_memory())
        choice.files()
        return choice

    def cancel(self, token: str) -> None:
        """Cancel the download whose progress has a token."""
        if token in self._downloads:
            self._downloads[token].set()

    # --- download ---------------------------------------------------------------------------------

    def _offer(
        self,
        choice: Choice,
        settings: Settings,
        error: ModelNotFoundError,
        *,
        is_for_edits: bool = False,
    ) -> None:
        if choice.pull_command in self._offered:
            return
        self._offered.add(choice.pull_command)
        if settings.offline:
            self._report(str(error))
        else:
            self._spawn(self._ask(choice, is_for_edits=is_for_edits))

    async def _ask(self, choice: Choice, *, is_for_edits: bool) -> None:
        size = f" ({choice.size_bytes / 1e9:.1f} GB)" if choice.size_bytes else ""
        text = (
            f"speclsp: {choice.title}{size} is not downloaded. "
            f"Until it is, {'there are no next edits of it' if is_for_edits else _TRIAL}."
        )
        if await self._editor.ask(text, (_DOWNLOAD, _NOT_NOW)) != _DOWNLOAD:
            self._editor.log("info", f"`{choice.pull_command}` downloads the model.")
            return
        try:
            await self._pull(choice)
        except DownloadCancelledError as error:
            self._editor.log("info", str(error))
        except SpecLspError as error:
            self._editor.show("error", f"speclsp: {error}")

    async def _pull(self, choice: Choice) -> None:
        progress_token = f"speclsp/download/{choice.name}"
        if progress_token in self._downloads:
            raise ModelNotFoundError(
                f"{choice.title} is being downloaded.", remedy="Wait until that is done."
            )
        cancel = self._downloads[progress_token] = threading.Event()
        loop = asyncio.get_running_loop()

        last, n_before, began = -1, 0, 0.0

        def report(done: int, total: int) -> None:
            nonlocal last, n_before, began
            percentage = 100 * done // max(1, total)
            if last < 0:
                n_before, began = done, time.monotonic()
            if percentage != last:
                last = percentage
                left = time_left(done - n_before, total - done, time.monotonic() - began)
                message = f"{done / 1e9:.2f} of {total / 1e9:.2f} GB{left}"
                step = Progress(
                    token=progress_token, stage="report", message=message, percentage=percentage
                )
                loop.call_soon_threadsafe(self._progress.take, step)

        def run() -> None:
            # Imported here: most windows download nothing.
            from speclsp.models import download  # noqa: PLC0415

            wanted = download.plan(choice.references)
            download.pull(wanted, report=report, is_cancelled=cancel.is_set)

        title = f"Downloading {choice.title}"
        self._progress.take(
            Progress(token=progress_token, stage="begin", title=title, cancellable=True)
        )
        message = ""
        try:
            await asyncio.to_thread(run)
        except SpecLspError as error:
            message = error.message
            raise
        finally:
            cancel.set()  # ends the thread where this task was cancelled
            del self._downloads[progress_token]
            self._progress.take(Progress(token=progress_token, stage="end", message=message))
        self._apply_settings()  # they may name the new model


def time_left(n_received: int, n_left: int, seconds: float) -> str:
    """Return how long the rest of a download takes, in words that follow its size.

    ``n_received`` bytes took ``seconds``.
    """
    if n_left == 0:
        return ", verifying"
    if n_received <= 0 or seconds <= 0:
        return ""
    s_left = n_left * seconds / n_received
    return f", {s_left:.0f} s left" if s_left < _MINUTES_FROM_S else f", {s_left / 60:.0f} min left"


def _running_preset() -> str:
    """Return the preset of an engine that windows of this machine use, "" where there is none.

    Such an engine holds memory, so that the memory alone would choose a smaller model, and load it
    beside the other.
    """
    # Imported here: most windows name their model, and answer their first message without these.
    from speclsp.engine_process.place import read_info  # noqa: PLC0415
    from speclsp.engine_process.start import running_engines  # noqa: PLC0415

    in_use = set()
    with suppress(SpecLspError, OSError):
        for info in filter(None, map(read_info, running_engines())):
            if not info.listens:
                in_use.add((info.model, info.settings.get("spec_draft_model", "")))
    for name, row in PRESETS.items():
        if row.memory:  # `auto` may choose it
            with suppress(ModelNotFoundError):
                files = named(name).files()
                target, *draft = (str(parts[0]) for parts in files.values())
                if (target, *(draft or [""])) in in_use:
                    return name
    return ""
