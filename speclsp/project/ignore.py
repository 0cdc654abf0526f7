"""Decides which files are ignored: by .gitignore files, the user's patterns and built-in names.

The first match decides, in this order: the user's ``exclude`` patterns, the nearest .gitignore up
to the repository's root, the repository's ``info/exclude``, the built-in names.  So
``!node_modules/`` in ``exclude`` includes node_modules again.  As in git, an ignored folder's
content is ignored too.

Where a folder's .gitignore has more patterns than can be matched while you type, everything in the
folder counts as ignored, but for what ``exclude`` includes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from speclsp.project.repository import find_repository
from speclsp.project.source_text import NO_LINKS, read_regular

IGNORE_FILE: Final = ".gitignore"
_MAX_FILE_BYTES: Final = 256 << 10
_MAX_PATTERNS: Final = 2_000
"""Most patterns that may apply to a path: they take a tenth of a second to compile, once, and a
quarter of a millisecond to match."""
_MAX_PROJECT_PATTERNS: Final = 20_000
"""Most patterns of a folder and its subfolders, about 20 MB."""
_PATTERN_CHARS: Final = 64
"""A longer pattern counts as several."""
_MAX_VERDICTS: Final = 1_024


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SKIPPED_FOLDERS: Final = _words(
    """
    .bzr .cache .dart_tool .direnv .eggs .git .gradle .hg .hypothesis .idea .ipynb_checkpoints .jj
    .mypy_cache .next .nox .nuxt .parcel-cache .pnpm-store .pytest_cache .ruff_cache .stack-work
    .svelte-kit .svn .terraform .tox .turbo .venv .vs .yarn CVS DerivedData Pods __pycache__
    bower_components htmlcov jspm_packages node_modules site-packages venv
    """
)
_SKIPPED_FOLDER_SUFFIXES: Final = (".egg-info", ".dist-info", ".xcodeproj")

_SKIPPED_NAMES: Final = _words(
    """
    Cargo.lock Gemfile.lock Pipfile.lock bun.lock composer.lock flake.lock go.sum
    npm-shrinkwrap.json package-lock.json packages.lock.json pdm.lock pnpm-lock.yaml poetry.lock
    uv.lock yarn.lock
    """
)
"""Lock files: long and generated."""

_SKIPPED_SUFFIXES: Final = tuple(
    _words("""
    .min.js .min.css .min.mjs .bundle.js .chunk.js .map .snap
    .7z .a .aac .apk .avi .avif .bin .bmp .bz2 .cab .class .ckpt .crx .dat .db .deb .dll .dmg .doc
    .docx .dylib .eot .exe .fbx .flac .gguf .gif .glb .gz .h5 .icns .ico .iso .jar .jpeg .jpg .lib
    .lz4 .m4a .mkv .mov .mp3 .mp4 .mpeg .msi .npy .npz .o .obj .odt .ogg .onnx .otf .parquet .pb
    .pdb .pdf .pickle .pkl .png .ppt .pptx .psd .pt .pth .pyc .pyd .pyo .rar .rlib .rpm .safetensors
    .so .sqlite .sqlite3 .stl .swf .tar .tgz .tif .tiff .ttf .war .wasm .wav .webm .webp .whl .wmv
    .woff .woff2 .xls .xlsx .xz .zip .zst
    .csv .tsv .jsonl .ndjson .log .svg .ipynb .pot .po
    """)
)
"""Minified, binary and data files."""


class _Level(NamedTuple):
    """The patterns that apply to the files of one folder."""

    specs: tuple[tuple[str, int, GitIgnoreSpec], ...] = ()
    """In order of precedence, each with what turns a path of the workspace folder into one that is
    relative to the spec's file: a prefix, and how many characters it takes the place of."""
    n_patterns: int = 0


class IgnoreRules:
    """The rules of one workspace folder; .gitignore files are read once, when needed.

    Paths are relative to the folder and use slashes; a folder's path ends with one.
    """

    def __init__(self, root: Path, exclude: Iterable[str]) -> None:
        self._root = root
        self._exclude, self.bad_patterns = compiled_patterns(exclude)
        self.too_large: list[str] = []
        """What to tell about files of patterns that were too large, with the remedy."""
        self._n_left = _MAX_PROJECT_PATTERNS
        self._by_folder: dict[str, _Level | None] = {}
        """What applies in each folder; None where everything counts as ignored."""
        self._above = self._level_above()
        if self._above is not None and _is_ignored_by(self._above):
            # The user opened an ignored folder deliberately: outer rules do not apply.
            self._above = _Level()

    def ignored(self, path: str) -> bool:
        """Whether a file or folder is ignored, given that its parent folder is not."""
        verdict = self._verdict(path)
        return _is_skipped_by_name(path) if verdict is None else verdict

    def ignored_or_within(self, path: str) -> bool:
        """Whether a file or folder, or any of its parents, is ignored."""
        return any(map(self.ignored, _with_parents(path)))

    def ignored_by_patterns(self, path: str) -> bool:
        """Whether patterns ignore a file or any of its parents; built-in names do not count."""
        return any(map(self._verdict, _with_parents(path)))

    def _verdict(self, path: str) -> bool | None:
        """Return whether the first matching pattern ignores a path; None if none matches."""
        verdict = self._exclude.check_file(path).include
        if verdict is not None:
            return verdict
        level = self._level_in("".join(path.rstrip("/").rpartition("/")[:2]))
        return True if level is None else _first_verdict(level, path)

    def _level_in(self, folder: str) -> _Level | None:
        level = self._above
        for parent in ("", *_with_parents(folder)):
            if parent not in self._by_folder:
                file = self._root / parent / IGNORE_FILE
                self._by_folder[parent] = level and self._with_file(level, file, ("", len(parent)))
            level = self._by_folder[parent]
        return level

    def _level_above(self) -> _Level | None:
        """Return what applies in the workspace folder by files outside of it."""
        repository = find_repository(self._root)
        if repository is None:
            return _Level()
        # The outermost first.
        places = [(repository.work_tree, repository.common_dir / "info" / "exclude")]
        outer = [
            parent for parent in self._root.parents if parent.is_relative_to(repository.work_tree)
        ]
        places += [(parent, parent / IGNORE_FILE) for parent in reversed(outer)]
        level: _Level | None = _Level()
        for base, file in places:
            inside = self._root.relative_to(base).as_posix()
            place = ("" if inside == "." else inside + "/", 0)
            level = level and self._with_file(level, file, place)
        return level

    def _with_file(self, level: _Level, file: Path, place: tuple[str, int]) -> _Level | None:
        """Return a level with a file's patterns before its own; None where they are too many."""
        try:
            # As in git, links are not followed.
            data = read_regular(file, _MAX_FILE_BYTES + 1, flags=NO_LINKS)
        except (OSError, ValueError):
            return level
        text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
        lines = [line for line in text.splitlines() if _is_pattern(line)]
        n_patterns = sum(1 + len(line) // _PATTERN_CHARS for line in lines)
        n_in_all = level.n_patterns + n_patterns
        if len(data) > _MAX_FILE_BYTES or n_in_all > _MAX_PATTERNS or n_patterns > self._n_left:
            self.too_large.append(
                f"{file} is too large: at most {_MAX_PATTERNS} patterns may apply to a file, those "
                f"of outer folders included, {_MAX_PROJECT_PATTERNS} in a project, in files of at "
                f"most {_MAX_FILE_BYTES >> 10} KiB. What it would leave out is not known, so "
                "everything in its folder counts as ignored. Shorten it, or bring back what you "
                'need with the setting exclude, such as "!src/".'
            )
            return None
        self._n_left -= n_patterns
        spec, _ = compiled_patterns(lines)
        return _Level(((*place, spec), *level.specs), n_in_all) if len(spec) else level


class IgnoredFiles:
    """Tells whether the user's patterns ignore files that are open in buffers.

    Caches rules and results until :meth:`renew`.  Not thread-safe.
    """

    def __init__(self, exclude: Iterable[str], tell: Callable[[str], None]) -> None:
        """``tell`` is called once for each file of patterns that was too large."""
        self._tell = tell
        self._told: set[str] = set()
        self.renew(exclude)

    def renew(self, exclude: Iterable[str]) -> None:
        """Replace the user's patterns and drop all caches."""
        patterns = tuple(exclude)
        self._rules = cache(lambda root: IgnoreRules(Path(root), patterns))
        # Every keystroke asks for the same file, and matching patterns is slow.
        self._verdict = lru_cache(_MAX_VERDICTS)(self._is_ignored)

    def is_ignored(self, root: str, file: str) -> bool:
        """Whether ``file`` in the folder ``root`` is ignored; both paths are absolute.

        A file in no folder, where ``root`` is empty, is not.
        """
        return bool(root) and self._verdict(root, file)

    def _is_ignored(self, root: str, file: str) -> bool:
        relative = os.path.relpath(file, root).replace(os.sep, "/")
        if relative.startswith("../"):
            return False
        rules = self._rules(root)
        is_ignored = rules.ignored_by_patterns(relative)
        for message in rules.too_large:
            if message not in self._told:
                self._told.add(message)
                self._tell(message)
        return is_ignored


def root_of(roots: Iterable[str], file: str) -> str:
    """Return the innermost folder that a file lies in, or "" for none; all paths are absolute."""
    around = (root for root in roots if file.startswith(root.rstrip(os.sep) + os.sep))
    return max(around, key=len, default="")


def _with_parents(path: str) -> Iterator[str]:
    """Yield the folders of a path, the outermost first, and the path itself."""
    for end, char in enumerate(path[:-1], start=1):
        if char == "/":
            yield path[:end]
    yield path


def _is_skipped_by_name(path: str) -> bool:
    name = path.rstrip("/").rpartition("/")[2]
    if path.endswith("/"):
        return name in _SKIPPED_FOLDERS or name.endswith(_SKIPPED_FOLDER_SUFFIXES)
    return name in _SKIPPED_NAMES or name.lower().endswith(_SKIPPED_SUFFIXES)


def _first_verdict(level: _Level, path: str) -> bool | None:
    for prefix, n_cut, spec in level.specs:
        verdict = spec.check_file(prefix + path[n_cut:]).include
        if verdict is not None:
            return verdict
    return None


def _is_ignored_by(above: _Level) -> bool:
    """Whether the workspace folder itself is ignored by files of patterns outside of it."""
    return bool(_first_verdict(_Level(tuple(spec for spec in above.specs if spec[0])), ""))


def _is_pattern(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def compiled_patterns(lines: Iterable[str]) -> tuple[GitIgnoreSpec, tuple[str, ...]]:
    """Compile patterns; malformed ones are omitted and returned."""
    good: list[_LinearPattern] = []
    bad: list[str] = []
    for line in filter(_is_pattern, lines):
        try:
            good.append(_compiled(line))
        except (ValueError, re.error):  # the second for ranges such as [z-a]
            bad.append(line)
    return GitIgnoreSpec(good), tuple(bad)


_STAR: Final = "[^/]*"
_LEADING_FOLDERS: Final = "^(?:.+/)?"
_FOLDERS: Final = "(?:/.+)?"
_SLASH: Final = re.compile(r"(?<!\[\^)/")
"""A slash between segments, but not the one of ``[^/]``."""


class _LinearPattern(GitIgnoreSpecPattern):
    """A pattern that a hostile repository cannot make slow.

    For k stars pathspec's expression tries a name of n characters in n**k ways: years for a name
    and a pattern of 100 characters, and no other thread of the process can run meanwhile.  Text
    between two wildcards may be matched at its first occurrence only, as in :mod:`fnmatch`; only
    the last wildcard tries several places.
    """

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        """Return the expression, and whether it ignores or includes."""
        regex, include = super().pattern_to_regex(pattern)
        return regex if regex is None else _without_backtracking(regex), include


@lru_cache(_MAX_PROJECT_PATTERNS)
def _compiled(line: str) -> _LinearPattern:
    """Compile a pattern; files of patterns are read again each time a document is opened."""
    return _LinearPattern(line)


def _without_backtracking(regex: str) -> str:
    """Return an expression of pathspec's that matches the same without giving back wildcards."""
    is_leading = regex.startswith(_LEADING_FOLDERS)
    head = _LEADING_FOLDERS if is_leading else ""
    *blocks, last = regex[len(head) :].split(_FOLDERS)
    parts = [head]
    for number, block in enumerate(blocks):
        gap = "(?:.+?/)??" if is_leading and not number else "(?:/.+?)??" if number else ""
        parts.append(f"(?>{gap}{_with_first_places(block)}(?=/|$))")
    if blocks:
        parts[0] = "^" if is_leading else ""
        parts.append(_FOLDERS)
    return "".join((*parts, _with_first_places(last)))


def _with_first_places(block: str) -> str:
    """Return a run of whole path segments in which only each segment's last star backtracks."""
    segments = []
    for segment in _SLASH.split(block):
        first, *rest = segment.split(_STAR)
        inner = [f"(?>[^/]*?{text})" for text in rest[:-1]]
        segments.append(_STAR.join((first + "".join(inner), *rest[-1:])))
    return "/".join(segments)
