"""A program between a client and a language server: it passes everything on, and writes it down.

``python lsp_tee.py FOLDER COMMAND…`` writes a line of JSON for each message into a file of its own
in FOLDER: ``["client", MESSAGE]``, ``["server", MESSAGE]``, and ``["ended", STATUS]`` at the end.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def pass_on(source: IO[bytes], to: IO[bytes], name: str, record: IO[str]) -> None:
    while head := source.readline():
        length = 0
        while head.strip():
            field, _, value = head.partition(b":")
            if field.lower() == b"content-length":
                length = int(value)
            head = source.readline()
        body = source.read(length)
        record.write(json.dumps([name, json.loads(body)], ensure_ascii=False) + "\n")
        record.flush()
        to.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        to.flush()


def main() -> int:
    folder, *command = sys.argv[1:]
    path = Path(folder, f"{os.getpid()}.jsonl")
    # Whoever sees the file has a language server's messages before it.
    with (
        path.open("w", encoding="utf-8") as record,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())

        def ask() -> None:
            assert server.stdin is not None
            with contextlib.suppress(OSError):
                pass_on(sys.stdin.buffer, server.stdin, "client", record)
                server.stdin.close()

        threading.Thread(target=ask, daemon=True).start()
        with contextlib.suppress(OSError):  # the client is gone
            pass_on(server.stdout, sys.stdout.buffer, "server", record)
        status = server.wait()
        record.write(json.dumps(["ended", status]) + "\n")
        return status


if __name__ == "__main__":
    # The thread of standard input may wait for ever.
    os._exit(main())
