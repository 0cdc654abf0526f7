"""Places in a repository's commits: added lines, behind the hunks that the commit made before.

A commit's hunks are taken as typed in the order of its diff.  A place is in a hunk of some lines
that has hunks of another file before it; what stands behind it in the diff is not there yet.
"""

from __future__ import annotations

import io
import random
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from benchmarks.cases import CasesError, EditCase
from speclsp.edits.edit import Hunk, hunks
from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.candidates import edited_candidates
from speclsp.prompt.context.edited_regions import EditedRegions
from speclsp.seam.documents import Document, TextEdit

_LANGUAGES: Final = {
    ".c": "c", ".cpp": "cpp", ".go": "go", ".h": "cpp", ".java": "java", ".js": "javascript",
    ".lua": "lua", ".py": "python", ".rs": "rust", ".ts": "typescript",
}  # fmt: skip
_OTHERS: Final = {".json", ".md", ".toml", ".yaml"}
"""Files beside these that the project shows."""
_N_COMMITS: Final = 800
"""The newest ones, among which places are drawn."""
_N_FILES: Final = range(2, 13)
"""Changed files of a commit."""
_N_LINES: Final = 5
"""Lines of a hunk that are not blank, at least."""
_N_CHARS: Final = 4_000
_N_BYTES: Final = 200_000
"""Of a file."""


@dataclass(frozen=True, slots=True)
class CommitPlace:
    """A hunk that is typed, the project around it, and what was edited before it."""

    case: EditCase
    texts: Mapping[str, str]
    edits: tuple[ContextChunk, ...]


def commit_places(repository: Path, n_places: int, seed: int) -> Iterator[CommitPlace]:
    """Yield a place in each of ``n_places`` commits, fewer where there are no more.

    Raises :class:`~benchmarks.cases.CasesError` where the folder is no repository.
    """
    options = ("--no-merges", "--min-parents=1", f"--max-count={_N_COMMITS}")
    commits = git(repository, "rev-list", *options, "HEAD").split()
    random.Random(f"commits {seed}").shuffle(commits)  # noqa: S311 - no secret
    for commit in commits:
        if not n_places:
            return
        place = _place(repository, commit, seed)
        if place is not None:
            n_places -= 1
            yield place


def _place(repository: Path, commit: str, seed: int) -> CommitPlace | None:
    changed = git(repository, "diff", "--name-only", "--diff-filter=M", f"{commit}~", commit)
    paths = [p for p in changed.splitlines() if PurePosixPath(p).suffix in _LANGUAGES]
    if len(paths) not in _N_FILES:
        return None
    texts = _texts(repository, f"{commit}~")
    new = _texts(repository, commit)
    if not all(path in texts and path in new for path in paths):
        return None
    order = [(path, hunk) for path in paths for hunk in hunks(texts[path], new[path])]
    able = [
        idx for idx, (path, hunk) in enumerate(order) if order[0][0] != path and _is_wanted(hunk)
    ]
    if not able:
        return None
    chosen = random.Random(f"{commit} {seed}").choice(able)  # noqa: S311 - no secret
    regions = EditedRegions()
    shifts = dict.fromkeys(paths, 0)
    for path, hunk in order[:chosen]:
        shifts[path] = _edit(texts, regions, path, hunk, shifts[path])
    path, hunk = order[chosen]
    start = hunk.start + shifts[path]
    case = EditCase(
        id=f"{commit[:12]} {path}:{chosen}",
        project=repository.resolve(),
        path=path,
        language_id=_LANGUAGES[PurePosixPath(path).suffix],
        prefix=texts[path][:start],
        typed=hunk.new,
        suffix=texts[path][start + len(hunk.old) :],
    )
    texts[path] = case.prefix + case.suffix
    lines = {edited: texts[edited].split("\n") for edited in paths}
    return CommitPlace(case, texts, tuple(edited_candidates(regions.newest_first(), lines)))


def _is_wanted(hunk: Hunk) -> bool:
    n_lines = sum(bool(line.strip()) for line in hunk.new.split("\n"))
    return n_lines >= _N_LINES and len(hunk.new) <= _N_CHARS


def _edit(texts: dict[str, str], regions: EditedRegions, path: str, hunk: Hunk, shift: int) -> int:
    """Make a hunk; return by how much the file's later ones are shifted now."""
    former = Document(uri=path, path=path, language_id="", version=1, text=texts[path])
    edit = TextEdit(hunk.start + shift, hunk.end + shift, hunk.new)
    regions.take(former, edit)
    texts[path] = edit.applied_to(former.text)
    return shift + len(hunk.new) - len(hunk.old)


def _texts(repository: Path, commit: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    archive = io.BytesIO(_output(repository, "archive", commit))
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            is_source = PurePosixPath(member.name).suffix in {*_LANGUAGES, *_OTHERS}
            if not (member.isfile() and is_source and member.size <= _N_BYTES):
                continue
            file = tar.extractfile(member)
            assert file is not None
            try:
                texts[member.name] = file.read().decode("utf-8")
            except UnicodeDecodeError:
                continue
    return texts


def git(repository: Path, *arguments: str) -> str:
    """Return what git prints of a repository's folder or git directory.  Raises CasesError."""
    return _output(repository, *arguments).decode("utf-8", "replace")


def _output(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()
        raise CasesError(f"git cannot read {repository}: {said}") from error
