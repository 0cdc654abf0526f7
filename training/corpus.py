"""The corpus: source files under permissive licences, without copies, and the held-out ones.

A corpus is a file of JSON lines under gzip, one :class:`SourceFile` each.  Its manifest lists the
packages, versions and licences that it was made of.
"""

from __future__ import annotations

import email
import gzip
import hashlib
import json
import re
import sys
import sysconfig
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from email.message import Message
from pathlib import Path

from training.holdout import canonical_name, held_out_package

_PERMISSIVE = (
    ("apache", "Apache-2.0"),
    ("isc", "ISC"),
    ("mit", "MIT"),
    ("bsd", "BSD"),
    ("psf", "PSF-2.0"),
    ("python software foundation", "PSF-2.0"),
    ("python-2.0", "PSF-2.0"),
    ("unlicense", "Unlicense"),
    ("public domain", "public domain"),
    ("zlib", "Zlib"),
    ("hpnd", "HPND"),
)
_OTHERS = ("gpl", "mozilla", "mpl", "eupl", "cddl", "epl", "proprietary", "nvidia", "commercial")


def permissive_licence(metadata: Message) -> str | None:
    """Return a distribution's licence, or None where it is not a permissive one or not named.

    ``metadata`` has the core metadata's fields.  A distribution under several licences is taken
    only where none of them restricts more than attribution.
    """
    expression = metadata.get("License-Expression", "")
    classifiers = " ".join(
        value for value in metadata.get_all("Classifier", []) if value.startswith("License")
    )
    lines = (metadata.get("License") or "").strip().splitlines()
    for text in (expression, classifiers, lines[0] if lines else ""):
        licence = permissive_text(text)
        if licence is not None:
            return licence
        if any(name in text.lower() for name in _OTHERS):
            return None
    return None


def permissive_text(text: str) -> str | None:
    """Return the licence that a short text names, or None where it is not a permissive one."""
    lower = text.lower()
    if any(name in lower for name in _OTHERS):
        return None
    found = [licence for name, licence in _PERMISSIVE if _has_word(lower, name)]
    return " / ".join(dict.fromkeys(found)) or None


def _has_word(text: str, word: str) -> bool:
    start = text.find(word)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(word) : start + len(word) + 1]
        if not before.isalpha() and not after.isalpha():
            return True
        start = text.find(word, start + 1)
    return False


LANGUAGES = {
    ".py": "python",
    ".c": "c++",
    ".cc": "c++",
    ".cpp": "c++",
    ".h": "c++",
    ".hpp": "c++",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".lua": "lua",
}
"""Language of a file by the end of its name; other files are not taken."""

_MIN_CHARS = 200
_MAX_CHARS = 250_000
_MAX_LINE_CHARS = 400
_MAX_MEAN_LINE_CHARS = 90
_MAX_DIGIT_SHARE = 0.12
_HEAD_CHARS = 1500
_GENERATED = re.compile(
    r"do not (edit|modify)|auto-?generated|generated (by|from|code|file|protocol)|@generated",
    re.IGNORECASE,
)


def is_worth_learning(text: str) -> bool:
    """Whether a file's text is neither data, nor generated, nor minified."""
    if not _MIN_CHARS <= len(text) <= _MAX_CHARS or "\0" in text:
        return False
    lines = text.splitlines()
    if len(text) / len(lines) > _MAX_MEAN_LINE_CHARS:
        return False
    if max(map(len, lines)) > _MAX_LINE_CHARS:
        return False
    if sum(map(str.isdigit, text)) > _MAX_DIGIT_SHARE * len(text):
        return False
    return _GENERATED.search(text[:_HEAD_CHARS]) is None


_N_LINES = 5
"""Lines of one shingle."""

_MIN_LINE_CHARS = 4
"""Shorter lines (a bracket, ``else:``) say nothing about where a text comes from."""


def shingles(text: str) -> frozenset[int]:
    """Return hashes of all runs of five lines that say something, white space left aside."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if len(line) >= _MIN_LINE_CHARS]
    hashes = [zlib.crc32(line.encode("utf-8", "replace")) for line in lines]
    n_runs = max(1, len(hashes) - _N_LINES + 1)
    return frozenset(hash(tuple(hashes[i : i + _N_LINES])) for i in range(n_runs))


def fingerprint(text: str) -> bytes:
    """Return a hash of the text without its white space."""
    return hashlib.sha256("".join(text.split()).encode("utf-8", "replace")).digest()


class SeenTexts:
    """Texts that were taken, to compare others with."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._fingerprints: set[bytes] = set()
        self._shingles: set[int] = set()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take a text into account from now on."""
        self._fingerprints.add(fingerprint(text))
        self._shingles |= shingles(text)

    def share_seen(self, text: str) -> float:
        """Return which share of the text's runs of five lines was seen before: 0 to 1."""
        if fingerprint(text) in self._fingerprints:
            return 1.0
        own = shingles(text)
        return sum(shingle in self._shingles for shingle in own) / len(own)


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


@dataclass(frozen=True, slots=True)
class PackageEntry:
    """What was taken of one package."""

    package: str
    version: str
    licence: str
    n_files: int
    n_chars: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was taken, and what was held out."""

    trained_on: tuple[PackageEntry, ...]
    held_out: tuple[PackageEntry, ...]
    languages: dict[str, int]
    """Characters of each language that was trained on."""


def manifest_of(corpus: Corpus) -> Manifest:
    """Describe a corpus."""
    languages: Counter[str] = Counter()
    for file in corpus.files:
        languages[file.language] += len(file.text)
    return Manifest(
        trained_on=_entries(corpus.files),
        held_out=_entries(corpus.held_out),
        languages=dict(languages.most_common()),
    )


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest, one package a line."""
    lines = ["{", f'"languages": {json.dumps(manifest.languages)},']
    for key, entries in (("trained_on", manifest.trained_on), ("held_out", manifest.held_out)):
        rows = ",\n".join(json.dumps(asdict(entry), ensure_ascii=False) for entry in entries)
        lines.append(f'"{key}": [\n{rows}\n]' + ("," if key == "trained_on" else ""))
    path.write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Manifest(
        trained_on=tuple(PackageEntry(**entry) for entry in raw["trained_on"]),
        held_out=tuple(PackageEntry(**entry) for entry in raw["held_out"]),
        languages=raw["languages"],
    )


def _entries(files: Iterable[SourceFile]) -> tuple[PackageEntry, ...]:
    by_package: dict[str, list[SourceFile]] = defaultdict(list)
    for file in files:
        by_package[file.package].append(file)
    entries = [
        PackageEntry(
            package=package,
            version=", ".join(sorted({file.version for file in members})),
            licence=", ".join(sorted({file.licence for file in members})),
            n_files=len(members),
            n_chars=sum(len(file.text) for file in members),
        )
        for package, members in by_package.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (-entry.n_chars, entry.package)))
