"""Values assigned to names of secrets: ``password``, ``api_key``, ``AUTH_TOKEN_PROD``.

Quoted literals count in every file.  Unquoted values count in configuration files, in lines of the
form ``NAME=value`` as in environment files and shells, and where they look random.
"""

# ruff: noqa: E501  # a rule is one expression

from __future__ import annotations

import re
from typing import Final, Literal

from speclsp.secrets.literal_values import (
    Judge,
    is_sentence,
    is_words,
    key,
    passphrase,
    password,
    reads_as_words,
    secret_word,
)
from speclsp.secrets.literals import (
    Value,
    enclosing_quote,
    line_indent,
    read_heredoc,
    read_indented,
    read_literal,
    read_pattern,
)
from speclsp.secrets.names import NameKind, SecretName
from speclsp.secrets.spans import Span

TextKind = Literal["code", "configuration", "declarations"]
"""In the last one, such as Terraform's, what has no quotes is an expression."""

# Runs of blanks are possessive: with backtracking two adjacent runs would be tried in n² ways.
# After the name: its own closing quote or index, and maybe a type.
_CLOSED: Final = r"\\{0,7}[\"'`\])\[0-9]{0,8}[ \t]*+"
_TYPE: Final = r"(?::[ \t]*+[A-Za-z_&\[][\w.\[\]| <>?&*']{0,40}?[ \t]*+(?==))?"
_JUDGES: Final[dict[NameKind, Judge]] = {
    "password": password,
    "passphrase": passphrase,
    "secret": secret_word,
    "key": key,
}
_CHOSEN: Final = ("password", "passphrase")
"""Kinds of names whose values people choose."""
_SIGN: Final = r"(?:=>|:=|\+=|\?{1,2}=|\|\|=|[=!]={1,2}|[=:：]|->|<-|\|\||\?\?|\?:)"
_DEFAULT: Final = (
    r"\)*[ \t]*+\.[ \t]*+(?:unwrap_or(?:_else)?|or_else|orElse(?:Get)?|getOrElse|map_or|or|default|"
    r"get_or_insert)[ \t]*+\((?:\|\w{0,20}\|[ \t]*+)?"
)
"""``env::var("API_KEY").unwrap_or("…")``: what stands for the value of a variable that is unset."""
_QUOTE: Final = r"(?=[A-Za-z@$]{0,3}#{0,3}\\{0,7}[\"'`])"
_ASSIGNED: Final = re.compile(
    rf"(?:{_CLOSED}{_TYPE}(?:{_SIGN}[ \t]*+(?P<bracket>[({{\[])?[ \t]*+|{_DEFAULT}|(?P<call>[({{])[ \t]*+)"
    rf"|[ \t]++(?=[\"'])){_QUOTE}"
)
_ASSIGNED_HEREDOC: Final = re.compile(rf"{_CLOSED}(?:=>|:=|[=:])[ \t]*+(?=[\"']?\$\(|<<)")
_LISTED: Final = re.compile(rf"\\{{0,7}}[\"'`][ \t]*+,[ \t]*+(?:\w+=)?(?:\"(?=\\\"))?{_QUOTE}")
"""``("api_key", "…")``: the next string may be another name, so it must look random."""
_SETTER: Final = re.compile(
    r"\b(?:put|set(?:Property|Parameter|Env|Header|Config|default)?|with\w{0,30}|property|define|"
    r"buildConfigField|get_?env\w{0,12}|environ\.get|env(?:iron)?|ENV\.fetch|config|lookup_?env)"
    r"[ \t]{0,4}\([ \t]{0,4}[\"'`][\w.\-]{0,40}\Z",
    re.IGNORECASE,
)
"""Calls in which a string is the value of the name before it: ``put("password", "…")``."""
_LONGEST_SETTER: Final = 90
_IN_CHOICE: Final = re.compile(r"\?[ \t]*[\"'`]\Z")
_LONGEST_CHOICE: Final = 4
_KEY_SIGN: Final = re.compile(r"[ \t]*(?:=>|:(?!:))")
_NAMED: Final = re.compile(
    r"(?:-[ \t]+)?(?:name|key)[ \t]*:[ \t]*[\"']?[\w.\-]{0,60}\Z", re.IGNORECASE
)
_VALUE_BELOW: Final = re.compile(r"[\"']?[ \t\r]*+\n[ \t]*+value[ \t]*+:[ \t]*+(?=[^\s#])")
"""``name: DB_PASSWORD`` and ``value: …`` on the next line."""
_BELOW_WORD: Final = re.compile(r"[^\s\"'#][^\n\"']*+")
_NAMES_BEFORE: Final = re.compile(
    r"[ \t]*(?:(?:let|var|const|my|local|val|auto)[ \t]*)?\(?(?:[$@]?[\w.]{1,60}[ \t]*,[ \t]*){0,8}[$@]?[\w.]{0,60}"
)
_NAMES_AFTER: Final = re.compile(
    r"[ \t]*+(?:,[ \t]*+[$@]?[\w.]{1,60}[ \t]*+){0,8}+\)?[ \t]*+:?=[ \t]*+[(\[]?[ \t]*+"
)
_ITEM: Final = re.compile(
    r"(?:[A-Za-z]{0,2}(?:\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+')|[^\s,\"'()\[\]{}]{1,80})[ \t]*+,[ \t]*+"
)

_OPEN: Final = re.compile(
    rf"[\"'`\]]{{0,3}}[ \t]*+{_TYPE}(?:=>|:=|[=:])[ \t]*+(?P<bracket>\()?(?P<block>[|>][+\-0-9]{{0,2}})?"
    r"[ \t]*+\\?[ \t\r]*+\n"
)
"""An assignment whose value begins on the next line."""
_OPENING: Final = re.compile(r"\"\"\"|'''|\\{0,7}[\"'`]")
_BLANKS: Final = re.compile(r"[ \t]*+")
_ALONE: Final = re.compile(r"[ \t]*+[,;)}\]]*+[ \t\r]*+(?=\n|\Z)")
_BARE_ALONE: Final = re.compile(r"[^\s\"'`]++(?=[ \t\r]*+(?:\n|\Z))")

_NAME_PART: Final = r"[\w.\-\[\]]*"
_OTHERS: Final = r"(?:[A-Za-z_]\w*=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';|&,]*)[ \t]+)*"
_BEFORE_SETTING: Final = re.compile(
    rf"[ \t]*(?:[#;/*\-$]+[ \t]*)?(?:(?:export|set|env|declare -x|readonly|local|arg)[ \t]+)?{_OTHERS}\w*",
    re.IGNORECASE,
)
_BEFORE_CONFIGURED: Final = re.compile(
    rf"[ \t]*(?:[\-#;/$]+[ \t]*)?(?:(?:export|set|env|arg)[ \t]+)?{_OTHERS}[\w.\-:/\[\]]*",
    re.IGNORECASE,
)
_BEFORE_IN_COMMAND: Final = re.compile(
    rf"(?:[ \t]--?[A-Za-z][\w\-]*(?:[ \t]+|=)(?:[^\s,=\"']++=[^\s,\"']*+,)*+|(?:[;&|]|\bsudo[ \t][^\n=;|&]{{0,60}})[ \t]+(?:export[ \t]+)?{_OTHERS}){_NAME_PART}\Z"
)
_ENVIRONMENT_VALUE: Final = re.compile(r"=(?P<value>[^\s\"'`=][^\n]*+)")
_WORD: Final = re.compile(r"(?=[^\s\"'`=$({\[<])(?:[^\s\"'`;|&,\\]|\\(?=\r?\n)|\\[^\s\"'`nrt])++")
_IN_STRING: Final = re.compile(r"(?=[^\s\"'`=$({\[<%])(?:[^\s\"'`;|&\\]|\\[^\s\"'`nrt(])++")
_MAKE_VALUE: Final = re.compile(r"[ \t]*+[:?+!]{0,3}=[ \t]*+(?P<value>[^\s\"'`=$(][^\n#]*+)")
_CONFIGURED_VALUE: Final = re.compile(
    r"[ \t]*+[=:][ \t]*+(?P<value>[^\s\"'`|>\[{&*!=:](?:[^ \t\n]|[ \t](?![#;]))*+)"
)
_SPACED_VALUE: Final = re.compile(
    r"[ \t]++(?P<value>(?>[^\s\"'`=:]*[0-9!@#$%^&*])[^\s\"'`]*+)[ \t\r]*+(?=\n|\Z)"
)
"""Without a sign between them the value is one word, and the line ends after it."""
_BARE: Final = re.compile(
    rf"{_CLOSED}(?:=>|:=|[=:])[ \t]*+(?P<value>[A-Za-z0-9+/_\-]{{16,}}={{0,2}})(?![\w.(\[])"
)
_CODE: Final = re.compile(r"[()\[\]{}<>]|[,;:]$|\.\w+\.")
_CALL: Final = re.compile(r"^[A-Za-z_][\w.:]*(?:\(.*\)|\[.*\]);?$|^(?:\$\(|`|<\()")
_COMMAND: Final = re.compile(rf"{_CALL.pattern}|^[A-Za-z][\w\-]* .*[\"']")
_SETTINGS: Final[dict[TextKind, tuple[tuple[re.Pattern[str], ...], ...]]] = {
    "code": ((_BEFORE_SETTING, _ENVIRONMENT_VALUE, _CODE),),
    "declarations": (),
    "configuration": (
        (_BEFORE_SETTING, _ENVIRONMENT_VALUE, _CALL),
        (_BEFORE_SETTING, _MAKE_VALUE, _COMMAND),
        (_BEFORE_CONFIGURED, _CONFIGURED_VALUE, _COMMAND),
        (_BEFORE_CONFIGURED, _SPACED_VALUE, _CALL),
    ),
}
"""What stands before a name, its value, and what shows that the value is code instead."""

_TO_LINE_END: Final = re.compile(r"[^\n\r]*[^\s]")
_LONGEST_BEFORE: Final = 80
_LONGEST_NAMES: Final = 200

_LONGEST_LINE: Final = 500
"""Characters between a line's start and a name without quotes of its own."""


def named_secret(text: str, name: SecretName, kind: TextKind) -> Value | None:
    """Return the value assigned to a name: on its line, or below.

    A value that is no secret has no parts; None where nothing of the lines below was read.
    """
    for read in (_in_tuple, _assigned, _listed, _heredoc, _value_below, _on_next_line):
        value = read(text, name)
        if value is not None:
            return value
    return _bare(text, name, kind)


def _assigned(text: str, name: SecretName) -> Value | None:
    found = _ASSIGNED.match(text, name.end)
    if found is None or _closes(text, name, found):
        return None
    if _IN_CHOICE.search(text, max(0, name.start - _LONGEST_CHOICE), name.start):
        return None  # ok ? "PASS" : "FAIL"
    is_bracketed = bool(found["bracket"] or found["call"])
    value = read_literal(text, found.end(), is_bracketed=is_bracketed)
    is_mapping = "{" in (found["bracket"], found["call"])
    if value is not None and is_mapping and _KEY_SIGN.match(text, value.end):
        return value._replace(parts=())  # {"type": "string"}
    return _judged(name, value)


def _listed(text: str, name: SecretName) -> Value | None:
    found = _LISTED.match(text, name.end)
    value = read_literal(text, found.end(), is_bracketed=True) if found is not None else None
    if value is None:
        return None
    is_set = _SETTER.search(text, max(0, name.start - _LONGEST_SETTER), name.start) is not None
    return _judged(name, value, None if is_set else "key")


def _heredoc(text: str, name: SecretName) -> Value | None:
    found = _ASSIGNED_HEREDOC.match(text, name.end)
    return _judged(name, read_heredoc(text, found.end())) if found is not None else None


def _value_below(text: str, name: SecretName) -> Value | None:
    found = _VALUE_BELOW.match(text, name.end)
    before = max(0, name.start - _LONGEST_SETTER)
    if found is None or _NAMED.search(text, before, name.start) is None:
        return None
    value = read_literal(text, found.end()) or read_pattern(text, found.end(), _BELOW_WORD)
    return _judged(name, value)


def _judged(name: SecretName, value: Value | None, kind: NameKind | None = None) -> Value | None:
    """Return a value, without its parts if it is no secret by the kind of its name."""
    if value is None or _is_secret(kind or name.kind, value):
        return value
    return value._replace(parts=())


def _is_secret(kind: NameKind, value: Value) -> bool:
    """Whether the value of a name is a secret, by the kind of the name."""
    lines = [line.strip() for line in value.text.split("\n")] if kind not in _CHOSEN else []
    texts = [value.text, "".join(lines), *lines] if len(lines) > 1 else [value.text]
    return any(_JUDGES[kind](one.strip() if lines else one, value.is_open) for one in texts)


def _closes(text: str, name: SecretName, found: re.Match[str]) -> bool:
    """Whether the quote after a name ends the string that the name stands in."""
    quote = _OPENING.search(text, found.end())[0]  # type: ignore[index]  # one stands there
    return quote not in text[name.end : found.end()] and enclosing_quote(text, name.start) == quote


def _on_next_line(text: str, name: SecretName) -> Value | None:
    opened = _OPEN.match(text, name.end)
    if opened is None:
        return None
    if opened["block"]:
        block = read_indented(text, opened.end(), line_indent(text, name.start))
        return _judged(name, block._replace(is_open=True))
    start = _BLANKS.match(text, opened.end()).end()  # type: ignore[union-attr]  # it may be empty
    is_docstring = text.startswith(('"""', "'''"), start) and ":" in opened[0]
    if not is_docstring:
        value = read_literal(text, start, is_bracketed=bool(opened["bracket"]))
        if value is not None:
            is_alone = value.is_open or _ALONE.match(text, value.end) is not None
            return _judged(name, value) if is_alone else value._replace(parts=())
    start += 2 if text.startswith("- ", start) else 0
    value = read_pattern(text, start, _BARE_ALONE) if start > opened.end() else None
    if value is None or _CODE.search(value.text) or not _is_secret("key", value):
        return None
    return value


def _in_tuple(text: str, name: SecretName) -> Value | None:
    """Return the value of a name among several: ``user, password = "bob", "…"``."""
    signs = _NAMES_AFTER.match(text, name.end)
    if signs is None:
        return None
    line_start = text.rfind("\n", max(0, name.start - _LONGEST_NAMES), name.start) + 1
    before = text[line_start : name.start]
    n_before = before.count(",")
    if not (n_before or "," in signs[0]) or not _NAMES_BEFORE.fullmatch(before):
        return None
    position = signs.end()
    for _ in range(n_before):
        item = _ITEM.match(text, position)
        if item is None:
            return None
        position = item.end()
    return _judged(name, read_literal(text, position))


def _bare(text: str, name: SecretName, kind: TextKind) -> Value | None:
    """Return the value of a name that has no quotes of its own."""
    line_start = text.rfind("\n", max(0, name.start - _LONGEST_LINE), name.start) + 1
    if line_start > 0 or name.start < _LONGEST_LINE:
        value = _in_command(text, name, line_start) or _in_setting(text, name, kind, line_start)
        if value is not None:
            return value
    found = _BARE.match(text, name.end)
    if found is not None and key(found["value"], False) and not reads_as_words(found["value"]):
        return Value((Span(*found.span("value")),), found["value"], found.end())
    return None


def _in_command(text: str, name: SecretName, line_start: int) -> Value | None:
    """Return the value of a name that a sign follows at once, in a command or a string."""
    if not text.startswith("=", name.end):
        return None
    if _BEFORE_IN_COMMAND.search(text, line_start, name.start):
        value = read_pattern(text, name.end + 1, _WORD)
    elif enclosing_quote(text, name.start):
        value = read_pattern(text, name.end + 1, _IN_STRING)
    else:
        return None
    return None if value is None or _CALL.match(value.text) else _judged(name, value)


def _in_setting(text: str, name: SecretName, kind: TextKind, line_start: int) -> Value | None:
    if name.start - line_start > _LONGEST_BEFORE:
        return None
    for before, pattern, code in _SETTINGS[kind]:
        if before.fullmatch(text, line_start, name.start):
            value = _setting(text, name, pattern)
            if value is not None and not code.search(value.text):
                return _judged(name, value)
            if value is not None and len(value.parts) > 1:
                return value._replace(parts=())  # a change below may make it a secret
    return None


def _setting(text: str, name: SecretName, pattern: re.Pattern[str]) -> Value | None:
    """Return the value that a pattern finds behind a name; a key ends at the first blank."""
    found = pattern.match(text, name.end)
    if found is None:
        return None
    value = read_pattern(text, found.start("value"), _TO_LINE_END)
    if value is None:
        return None
    literal = found["value"].rstrip()
    if len(value.parts) == 1:
        word, _, rest = literal.partition(" ")
        is_command = text[name.start].isupper() or not word.isalpha()  # DB_PASSWORD=… psql -h db
        is_drawn = name.kind == "passphrase" and is_words(literal)
        if name.kind not in _CHOSEN or (is_command and is_sentence(literal) and not is_drawn):
            literal = word
        start = found.start("value")
        is_open = literal is not word or not rest
        return Value((Span(start, start + len(literal)),), literal, found.end(), is_open)
    return value
