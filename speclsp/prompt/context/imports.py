"""Which files of the project a file imports, by the texts of its import statements.

A module's name is looked for among the project's paths: relative to the importing file where the
language says so, else by the end of the path, so that source roots need not be known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

_PYTHON: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#]+)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
_JAVASCRIPT: Final = re.compile(
    r"(?:\bfrom[ \t\n]*|\bimport[ \t\n]*\(?[ \t\n]*|\brequire[ \t]*\([ \t\n]*)"
    r"[\"'](?P<module>[^\"'\n]+)[\"']"
)
_INCLUDE: Final = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)[ \t]*[\"<](?P<module>[^\">\n]+)", re.MULTILINE
)
_LUA: Final = re.compile(
    r"\b(?:require|dofile|loadfile)[ \t]*\(?[ \t]*"
    r"(?:[\"'](?P<module>[^\"'\n]+)[\"']|\[\[(?P<long>[^\]\n]+)\]\])"
)
_RUBY: Final = re.compile(
    r"\brequire(?P<relative>_relative)?[ \t(]+[\"'](?P<module>[^\"'\n]+)[\"']"
)
_RUST: Final = re.compile(
    r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?(?:mod[ \t]+(?P<mod>\w+)[ \t]*;"
    r"|use[ \t]+(?:crate|self|super)(?P<use>(?:::\w+)+))",
    re.MULTILINE,
)
_DOTTED: Final = re.compile(
    r"^[ \t]*(?:import|using)[ \t]+(?:static[ \t]+)?(?P<module>\w+(?:\.\w+)+)", re.MULTILINE
)
_GO: Final = re.compile(
    r"^[ \t]*(?:import[ \t]+)?(?:\w+[ \t]+)?\"(?P<module>[\w.\-/]+)\"", re.MULTILINE
)

_SCRIPT_SUFFIXES: Final = tuple(
    ".ts .tsx .js .jsx .mjs .cjs .mts .d.ts .vue .svelte".split()  # noqa: SIM905  # as below
)
_C_SUFFIXES: Final = tuple(
    ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cu .cuh".split()  # noqa: SIM905  # a long list
)
_MAX_FROM_ONE: Final = 8
"""Files that one import may mean: a Go package has many."""


_Reader = Callable[[str, str, "ProjectPaths"], Iterator[str]]
"""From a file's text and folder to the paths that it imports."""


class ProjectPaths:
    """The project's files, found by the end of their paths.  Paths are relative, with slashes."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(posixpath.basename(path), []).append(path)
        self._by_folder: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_folder.setdefault(posixpath.dirname(path), []).append(path)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def ending_in(self, end: str, near: str) -> str | None:
        """Return the file whose path ends in ``end``, the one nearest to the folder ``near``."""
        end = end.lstrip("/")
        found = [
            path
            for path in self._by_name.get(posixpath.basename(end), ())
            if path == end or path.endswith("/" + end)
        ]
        return min(found, key=lambda path: (-_n_shared(path, near), len(path), path), default=None)

    def in_folder(self, end: str) -> list[str]:
        """Return the files directly in the first folder whose path ends in ``end``."""
        for folder, paths in sorted(self._by_folder.items()):
            if folder and (
                folder == end or folder.endswith("/" + end) or end.endswith("/" + folder)
            ):
                return paths
        return []


def imported_paths(text: str, path: str, project: ProjectPaths) -> list[str]:
    """Return the project's files that a file imports, in the order of its statements."""
    read = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
    if read is None:
        return []
    found = read(text, posixpath.dirname(path), project)
    return [other for other in dict.fromkeys(found) if other != path]


def _python(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _PYTHON.finditer(text):
        if statement["modules"] is not None:
            for module in statement["modules"].split(","):
                yield from _python_module(module.split(" as ")[0].strip(), folder, project)
            continue
        base = statement["base"]
        yield from _python_module(base, folder, project)
        for name in re.findall(r"\w+(?=[ \t\n]*(?:,|\)|$|as\b|#))", statement["names"]):
            joined = base + name if base.endswith(".") else f"{base}.{name}"
            yield from _python_module(joined, folder, project)


def _python_module(module: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    n_dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    if n_dots:
        up = [".."] * (n_dots - 1)
        place = posixpath.normpath(posixpath.join(folder, *up, *parts))
        exact = (f"{place}.py", f"{place}.pyi", f"{place}/__init__.py")
        yield from (path for path in exact if path.lstrip("./") in project or path in project)
        return
    if not parts:
        return
    place = "/".join(parts)
    for end in (f"{place}.py", f"{place}.pyi", f"{place}/__init__.py"):
        found = project.ending_in(end, folder)
        if found is not None:
            yield found
            return


def _script(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _JAVASCRIPT.finditer(text):
        module = statement["module"]
        if module.startswith("."):
            place = posixpath.normpath(posixpath.join(folder, module))
            yield from _first_of(_script_files(place), project)
        else:
            # "@/store/cart" and "~/store/cart" mean a source root; "react" is no file of ours.
            bare = re.sub(r"^[@~#$]/|^(?:src|app)/", "", module)
            if "/" in bare and not bare.startswith("@"):
                ends = (project.ending_in(end, folder) for end in _script_files(bare))
                yield from [path for path in ends if path is not None][:1]


def _script_files(place: str) -> list[str]:
    stem, dot, suffix = place.rpartition(".")
    files = [place + ending for ending in _SCRIPT_SUFFIXES]
    files += [f"{place}/index{ending}" for ending in _SCRIPT_SUFFIXES]
    if dot and f".{suffix}" in _SCRIPT_SUFFIXES:
        # "./cart.js" means cart.ts where that is compiled to it.
        files = [place, *(stem + ending for ending in _SCRIPT_SUFFIXES), *files]
    return files


def _c(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _INCLUDE.finditer(text):
        module = statement["module"]
        place = posixpath.normpath(posixpath.join(folder, module))
        if place in project:
            yield place
            continue
        found = project.ending_in(module, folder)
        if found is not None:
            yield found


def _lua(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _LUA.finditer(text):
        module = (statement["module"] or statement["long"]).removesuffix(".lua")
        place = module.replace(".", "/") if "/" not in module else module
        for end in (f"{place}.lua", f"{place}/init.lua"):
            found = project.ending_in(end, folder)
            if found is not None:
                yield found
                break


def _ruby(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _RUBY.finditer(text):
        place = posixpath.normpath(posixpath.join(folder, statement["module"])) + ".rb"
        found = (
            place if place in project else project.ending_in(statement["module"] + ".rb", folder)
        )
        if found is not None:
            yield found


def _rust(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
    for statement in _RUST.finditer(text):
        parts = [statement["mod"]] if statement["mod"] else statement["use"][2:].split("::")
        # The last parts of a use may be items of the module.
        places = ("/".join(parts[:n_parts]) for n_parts in range(len(parts), 0, -1))
        ends = (end for place in places for end in (f"{place}.rs", f"{place}/mod.rs"))
        found = (project.ending_in(end, folder) for end in ends)
        yield from [path for path in found if path is not None][:1]


def _go(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:  # noqa: ARG001  # as others
    for statement in _GO.finditer(text):
        yield from project.in_folder(statement["module"])[:_MAX_FROM_ONE]


def _dotted(suffix: str) -> _Reader:
    def read(text: str, folder: str, project: ProjectPaths) -> Iterator[str]:
        for statement in _DOTTED.finditer(text):
            found = project.ending_in(statement["module"].replace(".", "/") + suffix, folder)
            if found is not None:
                yield found

    return read


def _first_of(files: Sequence[str], project: ProjectPaths) -> Iterator[str]:
    for file in files:
        if file in project:
            yield file
            return


def _n_shared(path: str, folder: str) -> int:
    """Return how many folders two places begin with alike."""
    n_shared = 0
    for mine, theirs in zip(path.split("/"), folder.split("/"), strict=False):
        if mine != theirs:
            break
        n_shared += 1
    return n_shared


_BY_SUFFIX: Final[dict[str, _Reader]] = {
    **dict.fromkeys((".py", ".pyi", ".pyx"), _python),
    **dict.fromkeys(_SCRIPT_SUFFIXES, _script),
    **dict.fromkeys(_C_SUFFIXES, _c),
    ".lua": _lua,
    ".rb": _ruby,
    ".rs": _rust,
    ".go": _go,
    **{suffix: _dotted(suffix) for suffix in (".java", ".kt", ".scala", ".cs")},
}
