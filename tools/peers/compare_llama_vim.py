"""Type in a real Neovim with the real llama.vim, and compare with what ``benchmarks/peers`` does.

    python tools/peers/compare_llama_vim.py PLUGIN [--nvim nvim] [--keys 40] [CASE...]

PLUGIN is a folder with the plugin's autoload/: a checkout, or Debian's package vim-llama.cpp
unpacked.  A server of this process answers both in the same way.  After each key the requests that
were sent must be the same, but for the chunks of other places, which are drawn by chance, and so
must be the text on the screen.  Needs curl, as the plugin does.

Exit status: 0 all is the same, 1 something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pynvim

from benchmarks.cases import EditCase, load_cases
from benchmarks.peers.infill import InfillAnswer
from benchmarks.peers.llama_vim import LlamaVim
from benchmarks.peers.vim_buffer import VimBuffer, vim_buffer

CASES = Path(__file__).parents[2] / "fixtures" / "cases" / "cases.jsonl"
N_CASES = 6
RESTS_AFTER_S = 0.45
"""The plugin tries again after a tenth of a second where a request runs already."""
WARMS_UP_WITHIN_S = 2.6


class Model:
    """Says what the human will write, cut, wrong or empty now and then, by the prompt alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, request: dict[str, Any]) -> str:
        """Return the text for a request."""
        before = request["input_prefix"] + request["prompt"]
        at = self._text.find(before[-60:])
        draw = int(hashlib.sha256(before.encode()).hexdigest(), 16)
        if not request["n_predict"]:
            return ""
        if at < 0 or draw % 5 == 0:
            return ("", "foo(bar)\n", "   ", "\n", "\n    \n  ")[draw // 5 % 5]
        lines = self._text[at + len(before[-60:]) :].split("\n")
        text = "\n".join(lines[: 1 + draw // 20 % 3])
        return text[: max(1, len(text) // 2)] + "WRONG" if draw % 7 == 0 else text


class Server:
    """Answers the plugin, and keeps what it asks."""

    def __init__(self, model: Model) -> None:
        asked: list[dict[str, Any]] = []

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                # The plugin wants no blank behind the colon.
                answer = json.dumps({"content": model(request)}, separators=(",", ":")).encode()
                asked.append(request)
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.asked = asked
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self._server.server_port}/infill"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def taken(self) -> list[tuple[Any, ...]]:
        """Wait until nothing more is asked, and return what was."""
        n_asked, since = len(self.asked), time.monotonic()
        while time.monotonic() - since < RESTS_AFTER_S:
            time.sleep(0.02)
            if len(self.asked) != n_asked:
                n_asked, since = len(self.asked), time.monotonic()
        found = sorted(map(essence, self.asked))
        self.asked.clear()
        return found

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()


def essence(request: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a request asks for, its chunks left out."""
    names = ("input_prefix", "prompt", "input_suffix", "n_predict", "t_max_predict_ms")
    return (*(request[name] for name in names), request.get("n_indent", 0))


class Ours:
    """Our plugin: what it asks, and what it shows."""

    def __init__(self, model: Model) -> None:
        self.asked: list[dict[str, Any]] = []
        self._model = model
        self._vim = LlamaVim(self._answer, n_predict=128, seed=1)

    def moved(self, buffer: VimBuffer) -> tuple[list[tuple[Any, ...]], str]:
        """Return what is asked after a key, and what is shown."""
        self.asked.clear()
        shown = self._vim.moved(buffer)
        self._vim.work_in_background()
        return sorted(map(essence, self.asked)), shown.text

    def _answer(self, request: dict[str, Any]) -> InfillAnswer:
        self.asked.append(request)
        return InfillAnswer(text=self._model(request))


@contextlib.contextmanager
def neovim(program: str, plugin: Path, url: str) -> Iterator[Any]:
    """Start an editor whose only plugin is llama.vim, and which writes nothing by itself."""
    config = f"let g:llama_config = {{'endpoint_fim': '{url}', 'show_info': 0}}"
    argv = [program, "--embed", "--headless", "--clean", "-n"]
    argv += ["--cmd", f"set rtp+={plugin}", "--cmd", config]
    editor = pynvim.attach("child", argv=argv)
    editor.command("filetype indent off")
    editor.command("set noautoindent indentexpr= noexpandtab shortmess+=A hidden")
    try:
        yield editor
    finally:
        with contextlib.suppress(EOFError):
            editor.command("qa!")


def on_screen(editor: Any, after: str) -> str:
    """Return the text that is shown, without the rest of the cursor's line behind it."""
    namespace = editor.api.create_namespace("vt_fim")
    parts: list[str] = []
    for *_, details in editor.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True}):
        if "virt_text" in details:
            parts.insert(0, details["virt_text"][0][0])
        parts += [line[0][0] for line in details.get("virt_lines", [])]
    text = "\n".join(parts)
    # Blanks on one line cannot be taken.
    return text.removesuffix(after) if text.strip() or "\n" in text else ""


def compare(case: EditCase, n_keys: int, program: str, plugin: Path) -> tuple[int, int, int]:
    """Type the beginning of a case into both; return keys, requests and differences."""
    model = Model(case.prefix + case.typed + case.suffix)
    server, ours = Server(model), Ours(model)
    n_requests = n_differences = 0
    file = Path(case.path).name
    Path(file).write_text(case.prefix + case.suffix, encoding="utf-8")
    typed = case.typed[:n_keys]
    with neovim(program, plugin, server.url) as editor:
        editor.command(f"edit {file}")
        editor.command("setlocal noautoindent indentexpr= formatoptions=")
        start = vim_buffer(file, case.prefix, case.suffix)
        editor.current.window.cursor = (start.row + 1, len(start.line[: start.column].encode()))
        time.sleep(WARMS_UP_WITHIN_S)
        # At a line's end only `a` puts the cursor behind the last character, and moves it.
        is_at_end = 0 < start.column == len(start.line)
        editor.input("a" if is_at_end else "i")
        server.taken()
        if is_at_end:
            ours.moved(start)
        for n_typed, key in enumerate(typed, 1):
            editor.input({"\n": "<CR>", "<": "<lt>", "\t": "<C-v><Tab>"}.get(key, key))
            theirs = server.taken()
            buffer = vim_buffer(file, case.prefix + typed[:n_typed], case.suffix)
            asked, text = ours.moved(buffer)
            shown = on_screen(editor, buffer.line[buffer.column :])
            n_requests += len(theirs)
            if (theirs, shown) != (asked, text):
                n_differences += 1
                say(f"{case.id}, key {n_typed}, {buffer.line!r}:")
                say(f"  the plugin shows {shown!r}, asks {[each[1] for each in theirs]}")
                say(f"  ours shows       {text!r}, asks {[each[1] for each in asked]}")
    server.close()
    return len(typed), n_requests, n_differences


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Compare in the named cases, or in some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plugin", type=Path)
    parser.add_argument("--nvim", default="nvim")
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("cases", nargs="*")
    given = parser.parse_intermixed_args()
    cases = [case for case in load_cases(CASES) if "\r" not in case.prefix + case.typed]
    chosen = [case for case in cases if case.id in given.cases]
    if not given.cases:
        chosen = random.Random(1).sample(cases, N_CASES)  # noqa: S311 - no secret
    plugin, totals = given.plugin.resolve(), [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for case in chosen:
            found = compare(case, given.keys, given.nvim, plugin)
            totals = [total + n for total, n in zip(totals, found, strict=True)]
            say("{}: {} keys, {} requests, {} differences".format(case.id, *found))
    say("all: {} keys, {} requests, {} differences".format(*totals))
    return 1 if totals[2] else 0


if __name__ == "__main__":
    sys.exit(main())
