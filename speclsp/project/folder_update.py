"""Brings the index of one workspace folder up to date: by a scan, or from changed paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from speclsp.project.file_indexer import FileIndexer
from speclsp.project.ignore import IGNORE_FILE, IgnoreRules
from speclsp.project.scan import FoundFile, ScanTally, examine, scan
from speclsp.project.scan_progress import ScanProgress
from speclsp.settings import Settings

_MANY_CHANGES: Final = 200
"""From this many changed paths on, scanning the whole folder is cheaper than looking at each."""


@dataclass(slots=True, eq=False)
class Folder:
    """An open workspace folder.  ``root`` is absolute and without links."""

    root: str
    name: str
    rules: IgnoreRules
    is_scanned: bool = False
    n_left_out: int = 0
    walked: dict[str, bool] = field(default_factory=dict)
    """Folders in it that are indexed, each with whether it holds one that is not."""
    warned: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an update needs of the index around it."""

    interrupted: Callable[[], bool]
    """Whether going on is pointless."""
    make_way: Callable[[], None]
    """Asked before each folder that is listed and each file that is read."""
    watch: Callable[[], None]
    """The folders walked have changed."""
    publish: Callable[[], None]
    """There is more, or less, to search."""
    warn: Callable[[str], None]
    open_paths: frozenset[str]


def scan_folder(
    folder: Folder,
    indexer: FileIndexer,
    settings: Settings,
    around: Surroundings,
    progress: ScanProgress,
) -> bool:
    """Scan a whole folder; False when interrupted.  What was done until then counts."""
    if not folder.is_scanned:
        indexer.open_folder(folder.root, settings.max_index_tokens)
    folder.rules = IgnoreRules(Path(folder.root), settings.exclude)
    tally = ScanTally()
    found = _found(folder, settings, around, tally, start="")
    if around.interrupted():
        return False
    # Watching begins before reading, so that no change falls between them.
    folder.walked = tally.folders
    around.watch()
    folder.n_left_out = tally.n_skipped
    _warn(folder, settings, around, tally)
    _forget_missing(folder, indexer, indexer.table.paths(folder.root), found)
    news = [file for file in found if indexer.is_news(folder.root, file)]
    progress.start(len(news))
    for n_done, file in enumerate(news, start=1):
        around.make_way()
        if around.interrupted():
            break
        indexer.index(folder.root, file, settings)
        if indexer.flush_when_due():
            around.publish()
        progress.report(n_done)
    indexer.flush()
    around.publish()
    if around.interrupted():
        return False
    folder.is_scanned = True
    indexer.folder_is_scanned(folder.root)
    indexer.note_use(folder.root)
    return True


def apply_changes(
    folder: Folder,
    indexer: FileIndexer,
    settings: Settings,
    around: Surroundings,
    paths: Sequence[str],
) -> bool:
    """Look at paths that changed; False where the whole folder must be scanned instead."""
    relevant = {path: relative for path in paths if (relative := _relevant(folder, path))}
    if folder.root in paths or len(relevant) > _MANY_CHANGES:
        return False
    if any(Path(path).name == IGNORE_FILE for path in relevant):
        return False
    news: dict[str, FoundFile] = {}
    for path, relative in relevant.items():
        if relative.endswith("/"):
            news.update(
                (file.path, file)
                for file in _scan_part(folder, indexer, settings, around, relative)
            )
            continue
        # What is no file (any more) may have been a folder.
        indexer.forget(folder.root, indexer.table.paths_below(folder.root, path))
        file = examine(Path(folder.root), relative, max_file_size=settings.max_file_size)
        if file is None:
            indexer.forget(folder.root, [path])
        else:
            news[path] = file
    n_room = settings.max_files - len(indexer.table.paths(folder.root))
    for path, file in news.items():
        is_new = indexer.table.record(folder.root, path) is None
        if not indexer.is_news(folder.root, file) or (is_new and n_room <= 0):
            continue
        n_room -= is_new
        around.make_way()
        indexer.index(folder.root, file, settings)
    indexer.flush()
    around.publish()
    return True


def _scan_part(
    folder: Folder,
    indexer: FileIndexer,
    settings: Settings,
    around: Surroundings,
    relative: str,
) -> list[FoundFile]:
    """Scan a folder in the folder; ``relative`` ends with a slash."""
    start = relative.rstrip("/")
    tally = ScanTally()
    found = _found(folder, settings, around, tally, start=start)
    folder.walked.update(tally.folders)
    around.watch()
    below = indexer.table.paths_below(folder.root, str(Path(folder.root, start)))
    _forget_missing(folder, indexer, below, found)
    return found


def _found(
    folder: Folder, settings: Settings, around: Surroundings, tally: ScanTally, *, start: str
) -> list[FoundFile]:
    def interrupted() -> bool:
        around.make_way()
        return around.interrupted()

    files = scan(
        Path(folder.root),
        folder.rules,
        tally,
        max_file_size=settings.max_file_size,
        max_files=settings.max_files,
        start=start,
        interrupted=interrupted,
    )
    # Files beside the open ones are the most likely to be drafted from.
    near = {path.rpartition("/")[0] for path in around.open_paths}
    return sorted(files, key=lambda file: file.path.rpartition("/")[0] not in near)


def _forget_missing(
    folder: Folder, indexer: FileIndexer, known: list[str], found: list[FoundFile]
) -> None:
    present = {file.path for file in found}
    indexer.forget(folder.root, [path for path in known if path not in present])


def _relevant(folder: Folder, path: str) -> str:
    """Path relative to the folder, with a final slash for a folder; "" for one to pass over."""
    target = Path(path)
    relative = target.relative_to(folder.root).as_posix()
    try:
        is_folder = target.is_dir() and not target.is_symlink()
    except OSError:
        is_folder = False
    relative += "/" if is_folder else ""
    return "" if folder.rules.ignored_or_within(relative) else relative


def _warn(folder: Folder, settings: Settings, around: Surroundings, tally: ScanTally) -> None:
    """Tell what the user may want to know of a scan, each thing once."""
    warnings = [f"exclude: {text!r} is no pattern" for text in folder.rules.bad_patterns]
    if tally.truncated:
        warnings.append(f"only the first {settings.max_files} files are indexed (max_files)")
    if tally.n_unreadable:
        warnings.append(f"{tally.n_unreadable} folders cannot be read")
    for warning in warnings:
        if warning not in folder.warned:
            folder.warned.add(warning)
            around.warn(f"{folder.name}: {warning}")
