"""Whether a source file stands under a permissive licence: by its folder, its header, its notices.

SPDX expressions are checked and spelt by ``packaging.licenses``.  Everything else is found by the
phrases below.  In doubt a file is left out: a phrase too many costs a little of the corpus, one too
few a source that nobody may use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

PERMISSIVE = frozenset(
    {
        "0BSD",
        "AFL-2.1",
        "AFL-3.0",
        "Apache-2.0",
        "BSD-1-Clause",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BlueOak-1.0.0",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "HPND",
        "ISC",
        "LicenseRef-BSD",
        "LicenseRef-Public-Domain",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "NCSA",
        "PostgreSQL",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "X11",
        "Zlib",
    }
)
"""SPDX names of licences that ask for nothing but attribution.

``LicenseRef-BSD`` is a BSD licence whose number of clauses is not told.
"""

N_HEADER_LINES = 60
"""Lines at a file's beginning in which it may say its own licence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found: ``licence`` is an SPDX expression of permissive licences, or None.

    ``reason`` says what decided.
    """

    licence: str | None
    reason: str


def permissive_expression(text: str) -> str | None:
    """Return an SPDX expression as it is spelt by the standard, or None.

    It is None where the text is no expression, or where it leaves no choice of permissive licences
    alone: of alternatives (``OR``) one is enough, of what counts together (``AND``) all must be.
    """
    try:
        expression: str = canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return None
    # An exception ("WITH") only permits more than its licence does.
    bare = re.sub(r" WITH [^\s()]+", "", expression)
    booleans = re.sub(r"[^\s()]+", lambda word: _as_python(word.group()), bare)
    return expression if _holds(ast.parse(booleans, mode="eval").body) else None


def _as_python(word: str) -> str:
    return word.lower() if word in {"AND", "OR"} else str(word in PERMISSIVE)


def _holds(node: ast.expr) -> bool:
    """Python's ``and`` binds tighter than ``or``, as in SPDX (version 2.3, annex D.4.5)."""
    match node:
        case ast.Constant(value=bool(value)):
            return value
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_holds, values))
        case ast.BoolOp(values=values):
            return any(map(_holds, values))
    raise AssertionError(ast.dump(node))


_RESTRICTIVE = re.compile(
    r"gnu (?:lesser|library|affero|general|free documentation)|lesser general public"
    r"|affero general public|general public licen[cs]e|\b[al]gpl|\bgpl[- ]?v?\.?[0-9]"
    r"|mozilla public|\bmpl[- /]?v?[12]\b|\bmpl licen[cs]"
    r"|licen[cs]e[ds]?\W+(?:under\W+)?(?:the\W+)?mpl\b"
    r"|creative commons (?:attribution|by\b|zero.{0,20}attribution)|\bcc[- ]by\b"
    r"|attribution[- ]?(?:non-?commercial|share-?alike|no-?deriv)|non-?commercial (?:use|purpose)"
    r"|share-?alike|eclipse public|eclipse distribution|\bepl-[12]"
    r"|common development and distribution|\bcddl\b|european union public|\beupl\b"
    r"|server side public|\bsspl\b|business source licen[cs]e|\bbusl-|elastic licen[cs]e"
    r"|commons clause|functional source licen[cs]e|polyform|prosperity public"
    r"|common public licen[cs]e|\bcpl-1|open software licen[cs]e|\bosl-3|reciprocal licen[cs]e"
    r"|sleepycat|\bqpl-|vim licen[cs]e|open font licen[cs]e|\bofl-1|artistic licen[cs]e"
    r"|open database licen[cs]e|\bodbl\b|for good, not evil|advertising materials mentioning"
    r"|microsoft limited public|llama \d.{0,20}licen[cs]e"
)
"""Names of licences that ask for more than attribution, or permit less; in lower case."""

_RESTRICTIVE_IN_HEADERS = re.compile(
    r"\bgpl(?!-?\s?compatible)|proprietary|confidential|all rights are reserved|trade secret"
    r"|(?:may|must|shall) not be (?:copied|redistributed|reproduced|distributed|disclosed)"
    r"|(?:only|solely) for (?:academic|educational|research|personal|evaluation)|academic use only"
)
"""Words that say the same in a header, and in a file's body mostly something else."""

_HARMLESS = re.compile(
    r"gpl-?\s?compatible|previously distributed under the gnu general public license \(gpl\)"
)
"""What the licences of Python say of the GPL."""

_TEXTS = (
    ("MIT", r"permission is hereby granted, free of charge, to any person obtaining a copy"),
    (
        "BSD-3-Clause",
        (
            r"redistribution and use in source and binary forms,? with or without modification,?"
            r"(?=.{0,1500}(?:endorse or promote|neither the names?))"
        ),
    ),
    (
        "BSD-2-Clause",
        r"redistribution and use in source and binary forms,? with or without modification",
    ),
    ("Apache-2.0", r"apache license,? (?:,? )?version 2\.0"),
    ("PSF-2.0", r"python software foundation license|psf license agreement|licensed to psf under"),
    (
        "ISC",
        (
            r"permission to use, copy, modify, and(?:/or)? distribute this software for any purpose"
            r" with or without fee is hereby granted"
        ),
    ),
    (
        "HPND",
        (
            r"permission to use,? copy,? modify,?(?: and|,)? ?(?:and )?distribute this software"
            r" and its(?: associated)? documentation"
        ),
    ),
    ("Zlib", r"altered source versions must be plainly marked"),
    ("Unlicense", r"this is free and unencumbered software released into the public domain"),
    ("CC0-1.0", r"cc0 1\.0|cc0-1\.0|creative commons zero"),
    ("BSL-1.0", r"boost software license"),
    ("BlueOak-1.0.0", r"blue oak model license"),
    ("LicenseRef-Public-Domain", r"(?:in|into|to) the public domain"),
)
"""Phrases of licences' texts and of the notices that refer to them."""

_NAMES = (
    ("MIT-0", r"\bmit-0\b|mit no attribution"),
    ("MIT", r"\bmit\b"),
    ("Apache-2.0", r"\bapache\b(?! software foundation)(?!.{0,20}\b1\.[01])|\bapache-2\.0"),
    ("BSD-3-Clause", r"\bbsd[- ]?3|3-clause|(?:new|modified|revised) bsd"),
    ("BSD-2-Clause", r"\bbsd[- ]?2|2-clause|simplified bsd|freebsd licen[cs]e"),
    ("0BSD", r"\b0bsd\b|zero-clause bsd"),
    ("LicenseRef-BSD", r"\bbsd\b"),
    ("ISC", r"\bisc\b|\biscl\b"),
    ("PSF-2.0", r"\bpsfl?\b|psf-2|python software foundation|python licen[cs]e"),
    ("Zlib", r"\bzlib\b"),
    ("Unlicense", r"\bunlicense\b"),
    ("CC0-1.0", r"\bcc0\b"),
    ("HPND", r"\bhpnd\b|historical permission"),
    ("BSL-1.0", r"\bboost\b"),
    ("X11", r"\bx11\b"),
    ("AFL-2.1", r"academic free licen[cs]e"),
    ("LicenseRef-Public-Domain", r"public domain"),
)
"""Names by which metadata and one-line notices call licences."""

_COMPILED_TEXTS = tuple((name, re.compile(pattern)) for name, pattern in _TEXTS)
_COMPILED_NAMES = tuple((name, re.compile(pattern)) for name, pattern in _NAMES)


def verdict_of_name(text: str) -> Verdict:
    """Judge what metadata or a notice calls a licence: an SPDX expression, or a name in prose."""
    expression = permissive_expression(text)
    if expression is not None:
        return Verdict(expression, "")
    alternatives = re.split(r"\s+or\s+", _plain(text))
    verdicts = [_verdict_of_plain_name(plain) for plain in alternatives]
    return next((verdict for verdict in verdicts if verdict.licence is not None), verdicts[0])


def _verdict_of_plain_name(plain: str) -> Verdict:
    found = _restrictive(plain, _RESTRICTIVE_IN_HEADERS)
    if found:
        return Verdict(None, found)
    names = _found(plain, _COMPILED_NAMES) or _found(plain, _COMPILED_TEXTS)
    return Verdict(together(names), "" if names else f"unknown licence: {plain[:60]!r}")


def verdict_of_text(text: str) -> Verdict:
    """Judge a licence file by its text."""
    plain = _HARMLESS.sub("", _plain(text))
    found = _restrictive(plain)
    if found:
        return Verdict(None, found)
    names = _found(plain, _COMPILED_TEXTS)
    if not names and len(plain) < _N_SHORT_CHARS:
        names = _found(plain, _COMPILED_NAMES)
    return Verdict(together(names), "" if names else "unknown licence text")


_N_SHORT_CHARS = 1000
"""A longer licence file holds a licence's text, not only its name."""

_SPDX_LINE = re.compile(
    r"SPDX-License-Identifier:\s*([^\n]*?)\s*(?:\*/|-->|\"\"\"|'''|$)", re.MULTILINE
)

_COMMENT = re.compile(
    r"^[ \t]*(?:#+|//+|/?\*+/?|--+|;+|[rRuU]?\"\"\"|'''|%+|\.\.)[ \t]?", re.MULTILINE
)

_STATEMENT = re.compile(
    r"(?:licen[cs]ed|distributed|released|made available|available|redistributed|provided|usable)"
    r" under (?P<under>.{1,160})"
    r"|__licen[cs]e__\s*=\s*\(?\s*[\"'](?P<dunder>.{1,160}?)[\"']"
    r"|[@:]licen[cs]e:?\s+(?P<tag>\S.{0,120})"
)
_LICENCE_LINE = re.compile(
    r"^\W{0,12}licen[cs]e\s*:\s*(?P<line>\S.{0,120})", re.IGNORECASE | re.MULTILINE
)
_SAYS_LICENCE = re.compile(r"licen[cs]e\b|licen[cs]es\b|\bterms\b|__licen|licence ")
_REFERENCE = re.compile(
    r"licen[cs]e(?:[._-]\w+)? (?:file|text|for|in|of)|licen[cs]e\.\w+"
    r"|\blicen[cs]es?\b[\"'`]?(?:[.,;)]|$)|same (?:terms|licen[cs]e|conditions)|licen[cs]e as"
    r"|under the licen[cs]e\b|terms? (?:described|specified|stated|of use)|licenses? directory"
    r"|copying"
)
"""A notice that leads to the licence file, which is judged by itself."""


def verdict_of_header(text: str) -> Verdict | None:
    """Judge a source by what it says itself; None where it names no licence.

    Its SPDX lines and what its first 60 lines state are judged, and names of other than permissive
    licences anywhere in it: files are bundled, and a part's notice then stands in the middle.
    """
    expressions = _SPDX_LINE.findall(text)
    if expressions:
        spelt = [permissive_expression(expression) for expression in expressions]
        wrong = [e for e, known in zip(expressions, spelt, strict=True) if known is None]
        if wrong:
            return Verdict(None, f"SPDX line: {wrong[0][:60]}")
        if any(known and " OR " in known for known in spelt):
            # The prose beside it names the alternatives that are not taken, too.
            return Verdict(together(filter(None, spelt)), "SPDX line")
    header = "\n".join(text.splitlines()[:N_HEADER_LINES])
    plain = _plain(header)
    found = _restrictive(plain, _RESTRICTIVE_IN_HEADERS)
    if found:
        return Verdict(None, f"header: {found}")
    found = _restrictive(_plain(text))
    if found:
        return Verdict(None, f"notice: {found}")
    stated = _stated(header, plain)
    if isinstance(stated, Verdict):
        return stated
    names = _found(plain, _COMPILED_TEXTS) + stated + [e for e in expressions if e]
    reason = "SPDX line" if expressions else "header"
    return Verdict(together(names), reason) if names else None


def _stated(header: str, plain: str) -> list[str] | Verdict:
    """Return the licences that a header's statements name, or the verdict on an unknown one."""
    names: list[str] = []
    statements = [m.group() for m in _STATEMENT.finditer(plain)]
    lines = _LICENCE_LINE.finditer(_commented(header))
    statements += ["licence " + match["line"].lower() for match in lines]
    for whole in statements:
        statement = whole.split(". ")[0]
        if not _SAYS_LICENCE.search(statement):
            continue
        found = _found(statement, _COMPILED_NAMES) + _found(statement, _COMPILED_TEXTS)
        if not found and not _REFERENCE.search(statement):
            return Verdict(None, f"header: unknown licence: {statement[:60]!r}")
        names += found
    return names


def _commented(header: str) -> str:
    """Return the lines of comments and the first docstring: code has names of its own."""
    lines = [line for line in header.splitlines() if _COMMENT.match(line)]
    docstring = re.search(r'"""(.*?)"""', header, re.DOTALL)
    return "\n".join(lines) + ("\n" + docstring.group(1) if docstring else "")


_VENDORED = re.compile(
    r"vendor\w*|thirdpart(?:y|ies)|3rdparty|3rd|externs?|externals?|bundled|nodemodules"
    r"|bowercomponents|patched|deps"
)


def is_vendored(path: str) -> bool:
    """Whether a path leads through a folder of copies of other packages."""
    *folders, name = PurePosixPath(path).parts
    stem = PurePosixPath(name).stem
    return any(map(_is_vendor_name, folders)) or _bare(stem).startswith("vendored")


def _is_vendor_name(name: str) -> bool:
    return _VENDORED.fullmatch(_bare(name)) is not None


def _bare(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.lower())


_LICENCE_FILE = re.compile(
    r"^(?:un)?licen[cs]es?(?:\b|[-_.])|^copying|[-_.]licen[cs]e$", re.IGNORECASE
)
_NO_LICENCE = re.compile("authors|contribut|notice|credits|readme|thanks", re.IGNORECASE)
_NOT_TEXT = {".py", ".pyi", ".pyc", ".js", ".mjs", ".cjs", ".ts", ".json", ".html", ".css", ".map"}


def is_licence_file(name: str) -> bool:
    """Whether a file of this name holds a licence, or a folder of it licences."""
    return may_be_licence(name) and _LICENCE_FILE.search(name) is not None


def may_be_licence(name: str) -> bool:
    """Whether a file of this name in a folder of licences is one."""
    return PurePosixPath(name).suffix.lower() not in _NOT_TEXT and not _NO_LICENCE.match(name)


def verdict_of_files(texts: Sequence[tuple[str, str]]) -> Verdict:
    """Judge the licence files of one folder, by name and text: all of them must be permissive."""
    names: list[str] = []
    for name, text in texts:
        verdict = verdict_of_text(text)
        if verdict.licence is None:
            return Verdict(None, f"{name}: {verdict.reason}")
        names.append(verdict.licence)
    shown = ", ".join(name for name, _ in texts)
    return Verdict(together(names), f"licence file {shown}" if shown else "")


def _plain(text: str) -> str:
    """Return a text in lower case without comment signs and with single spaces."""
    return " ".join(_COMMENT.sub("", text).lower().split())


def _restrictive(plain: str, also: re.Pattern[str] | None = None) -> str:
    """Return the words that name another than a permissive licence, or an empty text."""
    found = _RESTRICTIVE.search(plain) or (also.search(plain) if also else None)
    return found.group() if found else ""


def _found(plain: str, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> list[str]:
    names = [name for name, pattern in patterns if pattern.search(plain)]
    # The general patterns match what the special ones do.
    for special, general in (
        ("MIT-0", "MIT"),
        ("BSD-3-Clause", "BSD-2-Clause"),
        ("BSD-3-Clause", "LicenseRef-BSD"),
        ("BSD-2-Clause", "LicenseRef-BSD"),
        ("0BSD", "LicenseRef-BSD"),
    ):
        if special in names and general in names:
            names.remove(general)
    return names


def together(names: Iterable[str]) -> str | None:
    """Join SPDX expressions that all count, each once; None where there are none."""
    several = list(dict.fromkeys(names))
    if len(several) == 1:
        return several[0]
    parts = [part for name in several for part in _factors(name)]
    return " AND ".join(dict.fromkeys(parts)) or None


def _factors(expression: str) -> list[str]:
    if " OR " not in expression:
        return expression.split(" AND ")
    return [expression if expression.startswith("(") else f"({expression})"]
