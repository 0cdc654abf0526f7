"""What clients send, kept in ``tests/clients/recordings``, and what is left out of it."""

import json
import re
from pathlib import Path
from typing import Any, Final

from client_features import HERE, PINS

RECORDINGS: Final = HERE / "recordings"
N_REQUESTS: Final = 6
"""So many of a client's requests by HTTP are kept, without equal ones."""


def recording(client: str) -> Any:
    """Return a client's recording."""
    return json.loads((RECORDINGS / f"{client}.json").read_text("utf-8"))


def recorded_clients(protocol: str) -> list[str]:
    """Return the clients with a recording by ``lsp`` or ``http``."""
    names = (path.stem for path in sorted(RECORDINGS.glob("*.json")))
    return [name for name in names if recording(name)["protocol"] == protocol]


def of_lsp(messages: list[Any]) -> list[Any]:
    """Return a client's messages, and the answers that they got."""
    return [
        [name, message]
        for name, message in messages
        if name == "client" or (name == "server" and "method" not in message and "id" in message)
    ]


def of_http(requests: list[dict[str, Any]]) -> list[Any]:
    """Return requests, each once."""
    kept: list[Any] = []
    for request in requests:
        if request not in kept:
            kept.append(request)
    return kept[:N_REQUESTS]


def write_recording(
    folder: Path, client: str, editor: str, protocol: str, entries: list[Any], **paths: Path
) -> None:
    """Write a recording; each path becomes its name with a slash before it."""
    pin = PINS.get(client)
    head = {
        "client": client,
        "commit": pin["commit"][:7] if pin else "",
        "editor": editor,
        "protocol": protocol,
    }
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    for name, path in paths.items():
        lines = lines.replace(str(path), f"/{name}")
    lines = re.sub(r'"processId": \d+', '"processId": null', lines)
    text = json.dumps(head, ensure_ascii=False)[:-1] + f', "entries": [\n{lines}\n]}}\n'
    json.loads(text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{client}.json").write_text(text, "utf-8")
