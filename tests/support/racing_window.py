"""A window that connects to the shared engine whenever it is told to.

Reads lines: ``connect`` answers with the engine's process id and whether this window started it,
``close`` with ``closed``.
"""

import sys

from echo_engines import PlainConnection, plain_connection

from speclsp.settings_resolution import resolve

PROGRAM = sys.argv[1:]
SETTINGS = resolve([{"engine_exit_seconds": 0}]).settings


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    held: list[PlainConnection] = []
    say("ready")
    for line in sys.stdin:
        if line.strip() == "connect":
            connection = plain_connection(SETTINGS, program=PROGRAM, timeout_s=120)
            held.append(connection)
            connection.socket.sendall(b"x")
            echoed = connection.socket.recv(1) == b"x"
            say(f"{connection.pid} {connection.process is not None} {echoed}")
        else:
            held.pop().socket.close()
            say("closed")


if __name__ == "__main__":
    main()
