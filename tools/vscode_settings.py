"""Writes the settings of the VS Code extension from the server's table.

``python tools/vscode_settings.py`` (``make docs``) writes ``contributes.configuration`` in
editors/vscode/package.json anew; a test holds the two together.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from speclsp import settings

PACKAGE = Path(__file__).parents[1] / "editors" / "vscode" / "package.json"

OF_THE_MACHINE = tuple(name for name in settings.FIELDS if settings.info(name).of_machine)
"""Files, models, and whether secrets are masked: a workspace may not choose them."""

_EFFECT = {
    "live": "",
    "engine": " A change loads the models anew.",
    "restart": " A change needs a restart of the server.",
}

CLIENT_SETTINGS: dict[str, dict[str, Any]] = {
    "speclsp.nextEdits": {
        "type": "boolean",
        "default": True,
        "scope": "resource",
        "markdownDescription": "Show next edits, where the model or that of `speclsp.editModel` "
        "proposes them.",
    },
    "speclsp.server.path": {
        "type": "string",
        "default": "",
        "scope": "machine",
        "markdownDescription": "The `speclsp` executable. Empty: the one on `PATH`, else the "
        "extension's private environment, which it offers to make.",
    },
    "speclsp.server.arguments": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "scope": "machine",
        "markdownDescription": "Further arguments of `speclsp serve`.",
    },
    "speclsp.server.python": {
        "type": "string",
        "default": "",
        "scope": "machine",
        "markdownDescription": "The Python (3.11 or newer) that a private environment is made "
        "with. Empty: `python3` or `python` on `PATH`.",
    },
    "speclsp.server.package": {
        "type": "string",
        "default": "",
        "scope": "machine",
        "markdownDescription": "What `pip install` puts into a private environment: a "
        "requirement, a wheel's path or a folder. Empty: the server that comes with the "
        "extension, else `speclsp` from the package index.",
    },
    "speclsp.trace.server": {
        "type": "string",
        "enum": ["messages", "verbose"],
        "default": "messages",
        "scope": "window",
        "markdownDescription": "What is logged of the messages between editor and server, once "
        "the log's level is *Trace*.",
    },
}
MOST_SET_OF_CLIENT = ("speclsp.nextEdits", "speclsp.server.path")
"""The extension's own settings that are not advanced."""


READ_AS = {
    "n_predict": "max_tokens",
    "n_candidates": "max_candidates",
    "n_gpu_layers": "gpu_layers",
    "n_prompt": "prompt_tokens",
    "n_context": "context_tokens",
}
"""Aliases that VS Code shows in place of names: it makes a label of each, such as "N Predict"."""


def camel_case(name: str) -> str:
    """``n_gpu_layers`` as VS Code writes names: ``nGpuLayers``."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _scope(name: str) -> str:
    row = settings.info(name)
    if name in OF_THE_MACHINE:
        return "machine"
    return "resource" if row.by_folder else "window"


def _property(name: str) -> dict[str, Any]:
    schema = msgspec.json.schema(settings.TYPES[name])
    row = settings.info(name)
    if "anyOf" in schema:  # an integer or one of some words
        kinds = schema.pop("anyOf")
        schema = {"type": [kind.get("type", "string") for kind in kinds]}
        words = [word for kind in kinds for word in kind.get("enum", ())]
        if words:
            schema["pattern"] = f"^({'|'.join(words)})$"
    elif "enum" in schema:
        schema["type"] = "string"
    if name == "drafter_options":
        schema = _drafter_options()
    elsewhere = f" Elsewhere: `{name}`." if name in READ_AS else ""
    return {
        **schema,
        "default": settings.default(name),
        "scope": _scope(name),
        "markdownDescription": row.help + _EFFECT[row.scope] + elsewhere,
    }


def _drafter_options() -> dict[str, Any]:
    """Return a schema by which VS Code completes the options; other packages' stay free."""
    return {
        "type": "object",
        "properties": {
            drafter: {
                "type": "object",
                "properties": {
                    option: {key: value for key, value in _property(name).items() if key != "scope"}
                    for option, name in options.items()
                },
                "additionalProperties": False,
            }
            for drafter, options in settings.DRAFTER_OPTIONS.items()
        },
        "additionalProperties": {"type": "object"},
    }


def configuration() -> list[dict[str, Any]]:
    """Return ``contributes.configuration``: what most people set, then a category for each group.

    Without ``order`` VS Code sorts categories and settings by their names.
    """
    server = [name for name in CLIENT_SETTINGS if name not in MOST_SET_OF_CLIENT]
    groups = {"speclsp": [*map(shown, settings.MOST_SET), *MOST_SET_OF_CLIENT], "server": server}
    for name in settings.SHOWN:
        if name not in settings.MOST_SET:
            groups.setdefault(settings.info(name).group, []).append(shown(name))
    known = {shown(name): _property(name) for name in settings.SHOWN} | CLIENT_SETTINGS
    return [
        {
            "title": title if title == "speclsp" else title.capitalize(),
            "order": order,
            "properties": {
                name: known[name] | {"order": row} | ({"tags": ["advanced"]} if order else {})
                for row, name in enumerate(names)
            },
        }
        for order, (title, names) in enumerate(groups.items())
    ]


def shown(name: str) -> str:
    """Return VS Code's name of a setting."""
    return f"speclsp.{camel_case(READ_AS.get(name, name))}"


def restricted() -> list[str]:
    """Return the settings that an untrusted workspace cannot give."""
    client = [name for name in CLIENT_SETTINGS if name.startswith("speclsp.server.")]
    return sorted([*client, *map(shown, OF_THE_MACHINE)])


def with_settings(package: dict[str, Any]) -> dict[str, Any]:
    """Return a package.json whose settings are the server's."""
    package = json.loads(json.dumps(package))
    package["contributes"]["configuration"] = configuration()
    package["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = restricted()
    return package


def write() -> None:
    """Write the settings of the extension anew."""
    package = with_settings(json.loads(PACKAGE.read_text(encoding="utf-8")))
    text = json.dumps(package, indent=2, ensure_ascii=False) + "\n"
    PACKAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
