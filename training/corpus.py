"""The corpus: source files under permissive licences, without copies, and the held-out ones.

A corpus is a file of JSON lines under gzip, one :class:`SourceFile` each.
"""

from __future__ import annotations

import email
import gzip
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from training.dedup import SeenTexts
from training.holdout import canonical_name, held_out_package
from training.licences import permissive_licence, permissive_text
from training.screening import LANGUAGES, is_worth_learning

_MAX_COPIED = 0.5
"""A file of which more was seen before, in five-line runs, is a copy."""

_MAX_HELD_OUT = 0.1
"""The same for held-out files, of which nothing should leak."""

_SKIPPED_FOLDERS = {"__pycache__", ".git", "node_modules", "testdata", "data", "site-packages"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file; ``path`` is relative to the folder that its package lies in."""

    package: str
    version: str
    licence: str
    language: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of sources under one licence that no package manager describes."""

    name: str
    version: str
    licence: str
    root: Path


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files to train on and files that were held out, each without copies."""

    files: list[SourceFile]
    held_out: list[SourceFile]


def standard_library() -> Tree:
    """Return the running interpreter's standard library."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Tree("python", version, "PSF-2.0", Path(sysconfig.get_path("stdlib")))


def files_of_tree(tree: Tree) -> Iterator[SourceFile]:
    """Yield the sources of a tree."""
    for path in _source_paths(tree.root):
        relative = path.relative_to(tree.root).as_posix()
        yield from _read(path, relative, tree.name, tree.version, tree.licence)


def files_of_site(site: Path) -> Iterator[SourceFile]:
    """Yield the sources of all distributions in a site-packages folder that are permissive."""
    for info in sorted(site.glob("*.dist-info")):
        metadata = email.message_from_string(
            (info / "METADATA").read_text(encoding="utf-8", errors="replace")
        )
        licence = permissive_licence(metadata)
        record = info / "RECORD"
        if licence is None or not record.is_file():
            continue
        name, version = canonical_name(metadata["Name"]), metadata["Version"]
        for line in record.read_text(encoding="utf-8").splitlines():
            relative = line.rsplit(",", 2)[0].strip('"')
            path = site / relative
            if path.suffix in LANGUAGES and ".." not in relative and path.is_file():
                yield from _read(path, relative, name, version, licence)


def files_of_node_modules(folder: Path) -> Iterator[SourceFile]:
    """Yield the sources of all permissive packages in a ``node_modules`` folder."""
    for manifest in sorted(folder.glob("*/package.json")):
        described = json.loads(manifest.read_text(encoding="utf-8"))
        licence = permissive_text(str(described.get("license", "")))
        if licence is None:
            continue
        name, version = described["name"], described.get("version", "")
        for path in _source_paths(manifest.parent):
            relative = path.relative_to(folder).as_posix()
            yield from _read(path, relative, name, version, licence)


def build_corpus(
    sources: Iterable[SourceFile], *, n_package_chars: int, larger: Mapping[str, int]
) -> Corpus:
    """Part the held-out files from the others and leave out copies, in the order given.

    Of one package at most ``n_package_chars`` are taken, or what ``larger`` says of it: files are
    chosen by a hash of their path, so that the choice is the same each time.
    """
    held_out: list[SourceFile] = []
    candidates: list[SourceFile] = []
    for file in sources:
        package = held_out_package(file.path) or held_out_package(f"{file.package}/_")
        if package is None:
            candidates.append(file)
        else:
            held_out.append(replace(file, package=package))
    seen_held_out = SeenTexts()
    held_out = list(_without_copies(held_out, seen_held_out))
    candidates = [f for f in candidates if seen_held_out.share_seen(f.text) <= _MAX_HELD_OUT]
    return Corpus(
        files=_capped(_without_copies(candidates, SeenTexts()), n_package_chars, larger),
        held_out=held_out,
    )


def write_files(files: Iterable[SourceFile], path: Path) -> None:
    """Write files as a corpus."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as out:
        for file in files:
            out.write(json.dumps(asdict(file)) + "\n")


def read_files(path: Path) -> list[SourceFile]:
    """Read a corpus."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [SourceFile(**json.loads(line)) for line in lines]


def _without_copies(files: Iterable[SourceFile], seen: SeenTexts) -> Iterator[SourceFile]:
    for file in files:
        if seen.share_seen(file.text) <= _MAX_COPIED:
            seen.add(file.text)
            yield file


def _capped(
    files: Iterable[SourceFile], n_package_chars: int, larger: Mapping[str, int]
) -> list[SourceFile]:
    by_package: dict[str, list[SourceFile]] = {}
    for file in files:
        by_package.setdefault(file.package, []).append(file)
    taken: list[SourceFile] = []
    for package, package_files in by_package.items():
        n_left = larger.get(package, n_package_chars)
        for file in sorted(package_files, key=_order):
            n_left -= len(file.text)
            if n_left < 0:
                break
            taken.append(file)
    return taken


def _order(file: SourceFile) -> str:
    return hashlib.sha1(file.path.encode(), usedforsecurity=False).hexdigest()


def _source_paths(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts[:-1]
        if path.suffix in LANGUAGES and not _SKIPPED_FOLDERS.intersection(parts) and path.is_file():
            yield path


def _read(path: Path, relative: str, name: str, version: str, licence: str) -> Iterator[SourceFile]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_worth_learning(text):
        language = LANGUAGES[path.suffix]
        yield SourceFile(name, version, licence, language, relative, text)
