"""Decides which files are ignored: by .gitignore files, the user's patterns and built-in names.

The first match decides, in this order: the user's ``exclude`` patterns, the nearest .gitignore up
to the repository's root, the repository's ``info/exclude``, the built-in names.  So
``!node_modules/`` in ``exclude`` includes node_modules again.  As in git, an ignored folder's
content is ignored too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from speclsp.project.repository import find_repository
from speclsp.project.source_text import NO_LINKS, read_regular

Patterns: TypeAlias = GitIgnoreSpec

IGNORE_FILE: Final = ".gitignore"
_MAX_IGNORE_FILE: Final = 1 << 20
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


class IgnoreRules:
    """The rules of one workspace folder; .gitignore files are read once, when needed.

    Paths are relative to the folder and use slashes; a folder's path ends with one.
    """

    def __init__(self, root: Path, exclude: Iterable[str]) -> None:
        self._root = root
        self._exclude, self.bad_patterns = compiled_patterns(exclude)
        self._by_folder: dict[str, GitIgnoreSpec | None] = {}
        self._above: list[tuple[str, GitIgnoreSpec]] = _specs_above(root)
        if _is_ignored_by(self._above):
            # The user opened an ignored folder deliberately: outer rules do not apply.
            self._above = []

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
        for spec, spec_path in self._specs(path):
            verdict = spec.check_file(spec_path).include
            if verdict is not None:
                return verdict
        return None

    def _specs(self, path: str) -> Iterator[tuple[GitIgnoreSpec, str]]:
        """Yield the specs in order of precedence, each with the path relative to its file."""
        yield self._exclude, path
        folder = path.rstrip("/").rpartition("/")[0]
        while True:
            spec = self._spec_in(folder)
            if spec is not None:
                yield spec, path[len(folder) + 1 if folder else 0 :]
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        for prefix, spec in self._above:
            yield spec, prefix + path

    def _spec_in(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._by_folder:
            self._by_folder[folder] = _read_spec(self._root / folder / IGNORE_FILE)
        return self._by_folder[folder]


class IgnoredFiles:
    """Tells whether the user's patterns ignore files that are open in buffers.

    Caches rules and results until :meth:`renew`.  Not thread-safe.
    """

    def __init__(self, exclude: Iterable[str]) -> None:
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
        return not relative.startswith("../") and self._rules(root).ignored_by_patterns(relative)


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


def _specs_above(root: Path) -> list[tuple[str, GitIgnoreSpec]]:
    """Return outer specs, the nearest first, each with the folder's path relative to its file."""
    repository = find_repository(root)
    if repository is None:
        return []
    places: list[tuple[Path, Path]] = []
    if repository.work_tree != root:
        inner = (parent for parent in root.parents if parent.is_relative_to(repository.work_tree))
        places += [(parent, parent / IGNORE_FILE) for parent in inner]
    places.append((repository.work_tree, repository.common_dir / "info" / "exclude"))
    specs: list[tuple[str, GitIgnoreSpec]] = []
    for base, file in places:
        spec = _read_spec(file)
        if spec is not None:
            inside = root.relative_to(base).as_posix()
            specs.append(("" if inside == "." else inside + "/", spec))
    return specs


def _is_ignored_by(specs: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """Whether the workspace folder itself is ignored."""
    for prefix, spec in specs:
        if prefix:
            verdict = spec.check_file(prefix).include
            if verdict is not None:
                return verdict
    return False


def _read_spec(file: Path) -> GitIgnoreSpec | None:
    """Read a file of patterns; None if it is missing or unreadable."""
    try:
        # As in git, links are not followed.
        data = read_regular(file, _MAX_IGNORE_FILE, flags=NO_LINKS)
    except (OSError, ValueError):
        return None
    lines = data.decode("utf-8", errors="replace").removeprefix("\ufeff").splitlines()
    spec, _ = compiled_patterns(lines)
    return spec if len(spec) else None


def compiled_patterns(lines: Iterable[str]) -> tuple[Patterns, tuple[str, ...]]:
    """Compile patterns; malformed ones are omitted and returned."""
    good: list[_LinearPattern] = []
    bad: list[str] = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        try:
            good.append(_LinearPattern(line))
        except ValueError:
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
