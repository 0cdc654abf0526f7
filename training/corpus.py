"""The corpus: source files under permissive licences, without copies, and the held-out ones.

A corpus is a file of JSON lines under xz, one :class:`SourceFile` each.  Its manifest counts by
package, and its list of files (JSON lines, too) names the licence and the SHA-256 of each.
"""

from __future__ import annotations

import email
import hashlib
import json
import lzma
import re
import sys
import sysconfig
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from email.message import Message
from pathlib import Path, PurePosixPath

from training.holdout import canonical_name, held_out_package
from training.licences import (
    Verdict,
    is_licence_file,
    is_vendored,
    may_be_licence,
    permissive_expression,
    together,
    verdict_of_files,
    verdict_of_header,
    verdict_of_name,
)

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
    r"do not (edit|modify)|auto-?generated|generated (by|from|code|file|protocol)|@generated"
    r"|__esModule|__awaiter|_interop_require",
    re.IGNORECASE,
)


def is_worth_learning(text: str) -> bool:
    """Whether a file's text is neither data, nor generated, nor minified."""
    if not _MIN_CHARS <= len(text) <= _MAX_CHARS or "\0" in text:
        return False
    if "sourceMappingURL=" in text[-_HEAD_CHARS:]:
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

    def __init__(self) -> None:
        self._fingerprints: set[bytes] = set()
        self._shingles: set[int] = set()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file; ``path`` is relative to the folder that its package lies in.

    ``licence`` is the file's own as an SPDX expression, and ``judged`` says what named it: the
    file's header, its SPDX line, the nearest licence file, or the package's metadata.  ``sha256``
    is that of the file as it was found; ``text`` has one kind of line ends.
    """

    package: str
    version: str
    licence: str
    judged: str
    language: str
    path: str
    sha256: str
    text: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A source that is not taken because of its licence, or a package of which none is."""

    package: str
    version: str
    path: str
    reason: str


Found = SourceFile | LeftOut


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of sources under one licence that no package manager describes.

    ``licence`` is an SPDX expression.
    """

    name: str
    version: str
    licence: str
    root: Path


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files to train on and files that were held out, each without copies."""

    files: list[SourceFile]
    held_out: list[SourceFile]
    left_out: list[LeftOut]


def standard_library() -> Tree:
    """Return the running interpreter's standard library."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Tree("python", version, "PSF-2.0", Path(sysconfig.get_path("stdlib")))


def files_of_tree(tree: Tree) -> Iterator[Found]:
    """Yield the sources of a tree, and what was left out.

    Raises ValueError where the tree's licence is not a permissive one.
    """
    if permissive_expression(tree.licence) is None:
        raise ValueError(
            f"{tree.name}: {tree.licence!r} is no SPDX expression of permissive licences"
        )
    package = _Package(tree.name, tree.version, Verdict(tree.licence, "given"), tree.root)
    yield from package.files(tree.root, _source_paths(tree.root))


def files_of_site(site: Path) -> Iterator[Found]:
    """Yield the Python sources of all distributions in a site-packages folder.

    JavaScript in a distribution is most often a bundle of other packages.
    """
    for info in sorted(site.glob("*.dist-info")):
        metadata = email.message_from_string(
            (info / "METADATA").read_text(encoding="utf-8", errors="replace")
        )
        name, version = canonical_name(metadata["Name"]), metadata["Version"]
        package = _Package(name, version, declared_licence(metadata), None)
        for inner, texts in _licence_files_of_info(info).items():
            package.add_folder(inner, texts)
        paths = _recorded(info / "RECORD", site)
        yield from package.files(site, [path for path in paths if path.suffix == ".py"])


def files_of_node_modules(folder: Path) -> Iterator[Found]:
    """Yield the sources of all packages in a ``node_modules`` folder, scoped ones included."""
    for manifest in sorted([*folder.glob("*/package.json"), *folder.glob("@*/*/package.json")]):
        described = json.loads(manifest.read_text(encoding="utf-8"))
        licence = str(described.get("license") or "")
        verdict = verdict_of_name(licence) if licence else Verdict(None, "")
        if verdict.reason:
            verdict = replace(verdict, reason=f"package.json: {verdict.reason}")
        elif verdict.licence:
            verdict = replace(verdict, reason="package.json")
        name, version = described.get("name", manifest.parent.name), described.get("version", "")
        package = _Package(name, version, verdict, manifest.parent)
        paths = [path for path in _source_paths(manifest.parent) if not _is_bundle(path, folder)]
        yield from package.files(folder, paths)


_BUNDLE_FOLDERS = {"dist", "umd", "build", "bundle", "bundles", "min", "static"}


def _is_bundle(path: Path, folder: Path) -> bool:
    """Whether JavaScript lies where bundlers write: other packages' code is then among it."""
    return bool(_BUNDLE_FOLDERS.intersection(path.relative_to(folder).parts[1:-1]))


def declared_licence(metadata: Message) -> Verdict:
    """Judge what a distribution's core metadata say.

    An SPDX expression decides by itself.  Of the older fields none may name another than a
    permissive licence.
    """
    expression = metadata.get("License-Expression", "")
    if expression:
        licence = permissive_expression(expression)
        return Verdict(licence, "metadata" if licence else f"metadata: {expression}")
    classifiers = [
        value.split(" :: ")[-1]
        for value in metadata.get_all("Classifier", [])
        if value.startswith("License ::") and value != "License :: OSI Approved"
    ]
    lines = (metadata.get("License") or "").strip().splitlines()
    found: list[str] = []
    for text in [*lines[:1], *classifiers]:
        verdict = verdict_of_name(text)
        if verdict.licence is not None:
            found.append(verdict.licence)
        elif text in classifiers or not verdict.reason.startswith("unknown"):
            return Verdict(None, f"metadata: {verdict.reason}")
    return Verdict(together(found), "metadata" if found else "")


class _Package:
    """One package: what its metadata and licence files say, by folder."""

    def __init__(self, name: str, version: str, declared: Verdict, root: Path | None) -> None:
        self._name = name
        self._version = version
        self._declared = declared
        self._root = root
        self._by_folder: dict[PurePosixPath, Verdict] = {}
        if root is not None:
            self.add_folder(PurePosixPath(), _licence_files(root))

    def add_folder(self, folder: PurePosixPath, texts: Sequence[tuple[str, str]]) -> None:
        """Take licence files, by name and text, of a folder into account.

        The empty path is the package's own.
        """
        if texts:
            self._by_folder[folder] = verdict_of_files(texts)

    def files(self, folder: Path, paths: Iterable[Path]) -> Iterator[Found]:
        """Yield the files that may be used, and what is left out with its reason."""
        whole = self._whole()
        if whole.licence is None:
            yield LeftOut(self._name, self._version, "", whole.reason)
            return
        for path in paths:
            relative = path.relative_to(folder).as_posix()
            text, sha256 = _text_and_hash(path)
            if text is None or not is_worth_learning(text):
                continue
            verdict = self._verdict(folder, path, text, whole)
            if verdict.licence is None:
                yield LeftOut(self._name, self._version, relative, verdict.reason)
                continue
            yield SourceFile(
                package=self._name,
                version=self._version,
                licence=verdict.licence,
                judged=verdict.reason,
                language=LANGUAGES[path.suffix],
                path=relative,
                sha256=sha256,
                text=text,
            )

    def _whole(self) -> Verdict:
        """Judge the package: metadata and licence files must agree where there are both."""
        declared, text = self._declared, self._by_folder.get(PurePosixPath())
        if declared.licence is None and declared.reason:
            return declared
        if declared.licence is None:
            return text or Verdict(None, "no licence is named")
        if text is None or text.licence is not None:
            return declared
        # Of alternatives the licence files have all the texts.
        return declared if " OR " in declared.licence else text

    def _verdict(self, folder: Path, path: Path, text: str, whole: Verdict) -> Verdict:
        top = self._root or folder
        relative = PurePosixPath(path.relative_to(top).as_posix())
        if is_vendored(relative.as_posix()):
            return Verdict(None, "folder of other packages")
        nearest = self._nearest(top, relative.parent) or whole
        if nearest.licence is None:
            return nearest
        return verdict_of_header(text) or nearest

    def _nearest(self, top: Path, folder: PurePosixPath) -> Verdict | None:
        """Return the verdict of the nearest folder below ``top`` that has licence files."""
        for parent in (folder, *folder.parents):
            if not parent.parts:
                break
            if parent not in self._by_folder:
                self._by_folder[parent] = verdict_of_files(_licence_files(top / parent))
            if self._by_folder[parent].reason:
                return self._by_folder[parent]
        return None


def _licence_files(folder: Path) -> list[tuple[str, str]]:
    """Return name and text of a folder's licence files, those in its folder LICENSES included."""
    found = []
    for path in sorted(folder.iterdir()):
        if is_licence_file(path.name):
            paths = [path] if path.is_file() else sorted(path.iterdir())
            paths = [path for path in paths if path.is_file() and may_be_licence(path.name)]
            found += [(path.name, _read_text(path)) for path in paths]
    return found


def _licence_files_of_info(info: Path) -> dict[PurePosixPath, list[tuple[str, str]]]:
    """Return the licence files that a distribution's metadata hold, by folder of the sources.

    With PEP 639 they keep the path that they have among the sources, below ``licenses``.
    """
    found: dict[PurePosixPath, list[tuple[str, str]]] = {}
    for path in sorted(info.rglob("*")):
        folders = list(path.relative_to(info).parts[:-1])
        if not path.is_file() or not may_be_licence(path.name):
            continue
        if not (folders or is_licence_file(path.name)):
            continue
        while folders and is_licence_file(folders[0]):
            del folders[0]
        while folders and is_licence_file(folders[-1]):
            del folders[-1]
        if folders and not is_licence_file(path.name):
            continue
        if folders and folders[0] in {"src", "lib"}:
            del folders[0]
        found.setdefault(PurePosixPath(*folders), []).append((path.name, _read_text(path)))
    return found


def _recorded(record: Path, site: Path) -> Iterator[Path]:
    if not record.is_file():
        return
    for line in record.read_text(encoding="utf-8").splitlines():
        relative = line.rsplit(",", 2)[0].strip('"')
        path = site / relative
        if path.suffix in LANGUAGES and ".." not in relative and path.is_file():
            yield path


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _text_and_hash(path: Path) -> tuple[str | None, str]:
    """Return a file's text with one kind of line ends, None where it is not UTF-8, and SHA-256."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        return None, ""
    return text, hashlib.sha256(data).hexdigest()


def build_corpus(
    sources: Iterable[Found], *, n_package_chars: int, larger: Mapping[str, int]
) -> Corpus:
    """Part the held-out files from the others and leave out copies, in the order given.

    Of one package at most ``n_package_chars`` are taken, or what ``larger`` says of it: files are
    chosen by a hash of their path, so that the choice is the same each time.
    """
    held_out: list[SourceFile] = []
    candidates: list[SourceFile] = []
    left_out: list[LeftOut] = []
    for file in sources:
        if isinstance(file, LeftOut):
            left_out.append(file)
            continue
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
        left_out=left_out,
    )


def write_files(files: Iterable[SourceFile], path: Path) -> None:
    """Write files as a corpus."""
    with lzma.open(path, "wt", encoding="utf-8") as out:
        for file in files:
            out.write(json.dumps(asdict(file)) + "\n")


def read_files(path: Path) -> list[SourceFile]:
    """Read a corpus."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [SourceFile(**json.loads(line)) for line in lines]


def texts_by_path(files: Iterable[SourceFile]) -> dict[tuple[str, str], str]:
    """Return the files' texts by package and path."""
    return {(file.package, file.path): file.text for file in files}


def listed(files: Iterable[SourceFile]) -> Iterator[dict[str, str]]:
    """Yield what names a file and its licence, in the order of package and path."""
    for file in sorted(files, key=lambda file: (file.package, file.path)):
        yield {
            "package": file.package,
            "version": file.version,
            "path": file.path,
            "licence": file.licence,
            "judged": file.judged,
            "sha256": file.sha256,
        }


def write_list(entries: Iterable[Mapping[str, str]], path: Path) -> None:
    """Write a list as JSON lines under xz."""
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as out:
        out.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def read_list(path: Path) -> list[dict[str, str]]:
    """Read a list that :func:`write_list` wrote."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


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
        if path.suffix not in LANGUAGES or path.name.endswith((".d.ts", ".min.js")):
            continue
        if path.is_file() and not _SKIPPED_FOLDERS.intersection(parts):
            yield path


@dataclass(frozen=True, slots=True)
class PackageEntry:
    """What was taken of one package."""

    package: str
    version: str
    licence: str
    n_files: int
    n_chars: int
    sha256: str
    """Of the lines ``SHA-256  path``, sorted, of its files."""


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


def _hash_of_files(files: Iterable[SourceFile]) -> str:
    lines = sorted(f"{file.sha256}  {file.path}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
            sha256=_hash_of_files(members),
        )
        for package, members in by_package.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (-entry.n_chars, entry.package)))
