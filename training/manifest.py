"""The list of what a corpus was made of: packages, versions, licences, files and characters."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from training.corpus import Corpus, SourceFile


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
