"""Which files of the project a file imports, by the texts of its import statements.

A statement gives the module's path without its ending.  The file is looked for beside the
importing one, then by the end of its path, so that source roots need not be known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

_MAX_FROM_ONE: Final = 8
"""Files that one import may mean: a Go package has many."""


class ProjectPaths:
    """The project's files, found by the end of their paths.  Paths are relative, with slashes."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        self._by_folder: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_name.setdefault(posixpath.basename(path), []).append(path)
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


@dataclass(frozen=True, slots=True)
class _Language:
    """How a language names modules, and their files."""

    statement: re.Pattern[str]
    modules: Callable[[re.Match[str]], Sequence[str]]
    """From a statement to the modules' paths without endings, the likeliest first.  One that
    begins with a dot is relative to the importing file."""
    endings: tuple[str, ...]
    takes_all: bool = False
    """Whether a statement imports all of its modules, not the first that there is."""


def imported_paths(text: str, path: str, project: ProjectPaths) -> list[str]:
    """Return the project's files that a file imports, in the order of its statements."""
    suffix = PurePosixPath(path).suffix.lower()
    folder = posixpath.dirname(path)
    found: list[str] = []
    if suffix == ".go":
        for statement in _GO.finditer(text):
            found += project.in_folder(statement["module"])[:_MAX_FROM_ONE]
    language = _BY_SUFFIX.get(suffix)
    if language is not None:
        for statement in language.statement.finditer(text):
            files = _files(language, language.modules(statement), folder, project)
            found += files if language.takes_all else list(files)[:1]
    return [other for other in dict.fromkeys(found) if other != path]


def _files(
    language: _Language, modules: Sequence[str], folder: str, project: ProjectPaths
) -> Iterator[str]:
    for module in modules:
        place = posixpath.join(folder, module)
        beside = (posixpath.normpath(place + ending) for ending in language.endings)
        file = next((path for path in beside if path in project), None)
        if file is None and not module.startswith("."):
            ends = (project.ending_in(module + ending, folder) for ending in language.endings)
            file = next((end for end in ends if end is not None), None)
        if file is not None:
            yield file


def _n_shared(path: str, folder: str) -> int:
    """Return how many leading folders two paths share."""
    n_shared = 0
    for mine, theirs in zip(path.split("/"), folder.split("/"), strict=False):
        if mine != theirs:
            break
        n_shared += 1
    return n_shared


def _python(statement: re.Match[str]) -> list[str]:
    if statement["modules"] is not None:
        modules = [module.split(" as ")[0].strip() for module in statement["modules"].split(",")]
    else:
        base = statement["base"]
        names = re.findall(r"\w+(?=[ \t\n]*(?:,|\)|$|as\b|#))", statement["names"])
        modules = [base, *(base + "." * (base[-1] != ".") + name for name in names)]
    return [_python_path(module) for module in modules if module]


def _python_path(module: str) -> str:
    bare = module.lstrip(".")
    n_dots = len(module) - len(bare)
    up = ["."] * (n_dots > 0) + [".."] * (n_dots - 1)
    return "/".join(up + [part for part in bare.split(".") if part])


def _script(statement: re.Match[str]) -> list[str]:
    module = statement["module"]
    if not module.startswith("."):
        # "@/store/cart" and "~/store/cart" mean a source root; "react" is no file of ours.
        module = re.sub(r"^[@~#$]/|^(?:src|app)/", "", module)
        if "/" not in module or module.startswith("@"):
            return []
    stem, suffix = posixpath.splitext(module)
    # "./cart.js" means cart.ts where that is compiled to it.
    return [module, stem] if suffix in _SCRIPT_SUFFIXES else [module]


def _lua(statement: re.Match[str]) -> list[str]:
    module = (statement["module"] or statement["long"]).removesuffix(".lua")
    return [module if "/" in module else module.replace(".", "/")]


def _rust(statement: re.Match[str]) -> list[str]:
    parts = [statement["mod"]] if statement["mod"] else statement["use"][2:].split("::")
    # The last parts of a use may be items of the module.
    return ["/".join(parts[:n_parts]) for n_parts in range(len(parts), 0, -1)]


def _verbatim(statement: re.Match[str]) -> list[str]:
    return [statement["module"]]


def _dotted(statement: re.Match[str]) -> list[str]:
    return [statement["module"].replace(".", "/")]


_SCRIPT_SUFFIXES: Final = tuple(
    ".ts .tsx .js .jsx .mjs .cjs .mts .d.ts .vue .svelte".split()  # noqa: SIM905  # as below
)
_C_SUFFIXES: Final = tuple(
    ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cu .cuh".split()  # noqa: SIM905  # a long list
)
_GO: Final = re.compile(
    r"^[ \t]*(?:import[ \t]+)?(?:\w+[ \t]+)?\"(?P<module>[\w.\-/]+)\"", re.MULTILINE
)
_PYTHON: Final = _Language(
    re.compile(
        r"^[ \t]*(?:from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n#]+)"
        r"|import[ \t]+(?P<modules>[\w., \t]+))",
        re.MULTILINE,
    ),
    _python,
    (".py", ".pyi", "/__init__.py"),
    takes_all=True,
)
_SCRIPT: Final = _Language(
    re.compile(
        r"(?:\bfrom[ \t\n]*|\bimport[ \t\n]*\(?[ \t\n]*|\brequire[ \t]*\([ \t\n]*)"
        r"[\"'](?P<module>[^\"'\n]+)[\"']"
    ),
    _script,
    ("", *_SCRIPT_SUFFIXES, *(f"/index{suffix}" for suffix in _SCRIPT_SUFFIXES)),
)
_C: Final = _Language(
    re.compile(r"^[ \t]*#[ \t]*(?:include|import)[ \t]*[\"<](?P<module>[^\">\n]+)", re.MULTILINE),
    _verbatim,
    ("",),
)
_LUA: Final = _Language(
    re.compile(
        r"\b(?:require|dofile|loadfile)[ \t]*\(?[ \t]*"
        r"(?:[\"'](?P<module>[^\"'\n]+)[\"']|\[\[(?P<long>[^\]\n]+)\]\])"
    ),
    _lua,
    (".lua", "/init.lua"),
)
_RUBY: Final = _Language(
    re.compile(r"\brequire(?:_relative)?[ \t(]+[\"'](?P<module>[^\"'\n]+)[\"']"),
    _verbatim,
    (".rb",),
)
_RUST: Final = _Language(
    re.compile(
        r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?(?:mod[ \t]+(?P<mod>\w+)[ \t]*;"
        r"|use[ \t]+(?:crate|self|super)(?P<use>(?:::\w+)+))",
        re.MULTILINE,
    ),
    _rust,
    (".rs", "/mod.rs"),
)
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:import|using)[ \t]+(?:static[ \t]+)?(?P<module>\w+(?:\.\w+)+)", re.MULTILINE
)
_BY_SUFFIX: Final = {
    **dict.fromkeys((".py", ".pyi", ".pyx"), _PYTHON),
    **dict.fromkeys(_SCRIPT_SUFFIXES, _SCRIPT),
    **dict.fromkeys(_C_SUFFIXES, _C),
    ".lua": _LUA,
    ".rb": _RUBY,
    ".rs": _RUST,
    **{
        suffix: _Language(_IMPORT, _dotted, (suffix,))
        for suffix in (".java", ".kt", ".scala", ".cs")
    },
}
