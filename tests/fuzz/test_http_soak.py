"""Four clients of ``speclsp http`` at once, well and badly behaved.

``SPECLSP_HTTP_SOAK_SECONDS`` is how long they ask, ``SPECLSP_HTTP_SOAK_SEED`` what they do.
"""

import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from serving_process import resident_mib
from speclsp_http import HEAD, INFILL, TIMEOUT_S, Server

pytestmark = pytest.mark.real

SECONDS = float(os.environ.get("SPECLSP_HTTP_SOAK_SECONDS", "6"))
SEED = int(os.environ.get("SPECLSP_HTTP_SOAK_SEED", "1"))
N_CLIENTS = 4
LARGE = 3 << 20
MARK = "wombat_of_this_prompt"
MOST_GROWTH_MIB = 320
"""Documents of 10 MB and their copies: 100 MiB a client after a minute, and no more in three."""


class Client:
    """One client, its random actions, and what it found wrong."""

    def __init__(self, server: Server, number: int) -> None:
        self.random = random.Random(f"{SEED} {number}")
        self.server = server
        self.agent = f"client {number}"
        self.done: Counter[str] = Counter()
        self.actions: list[Callable[[], None]] = [
            self.infill,
            self.infill,
            self.infill,
            self.streams,
            self.raw_prompt,
            self.hangs_up,
            self.reads_slowly,
            self.malformed,
            self.large_body,
            self.half_a_body,
        ]

    def run(self, end: float) -> None:
        # Each does all of it once, however long the machine takes.
        todo = [*self.actions]
        self.random.shuffle(todo)
        while todo or time.monotonic() < end:
            action = todo.pop() if todo else self.random.choice(self.actions)
            action()
            self.done[action.__name__] += 1

    def body(self, **options: Any) -> dict[str, Any]:
        at = self.random.randrange(40, len(HEAD))
        return {
            "input_prefix": f"# {MARK} {self.random.random()}\n{HEAD[:at]}",
            "input_suffix": HEAD[at:],
            "n_predict": self.random.randrange(12),
            "seed": self.random.randrange(99),
            **options,
        }

    def ask(self, path: str, body: Any) -> Any:
        return self.server.ask(path, body, User_Agent=self.agent)

    def infill(self) -> None:
        answer = self.ask("/infill", self.body())
        assert answer["stop"] is True

    def streams(self) -> None:
        *parts, last = self.server.events("/infill", self.body(n_predict=8))
        assert last["stop"] is True
        assert all(part["stop"] is False for part in parts)

    def raw_prompt(self) -> None:
        answer = self.ask("/v1/completions", {"prompt": HEAD, "max_tokens": 4})
        assert len(answer["choices"]) == 1

    def hangs_up(self) -> None:
        with self.connected(self.body(n_predict=-1, temperature=3.0, stream=True)) as connection:
            if self.random.random() < 0.5:
                connection.recv(1)

    def reads_slowly(self) -> None:
        body = self.body(n_predict=200, temperature=3.0, stream=True)
        with self.connected(body) as connection:
            for _ in range(4):
                time.sleep(0.05)
                assert connection.recv(8)

    def malformed(self) -> None:
        data = json.dumps(self.body()).encode()
        at = self.random.randrange(1, len(data))
        status, text = self.server.send(
            "/infill", raw=self.random.choice([data[:at], b"\xff" + data, b"[1]", b"null"])
        )
        assert (status, json.loads(text)["error"]["code"]) == (500, 500)

    def large_body(self) -> None:
        suffix = "x = 1\n" * (LARGE // 6)
        assert self.ask("/infill", self.body(input_suffix=suffix))["stop"] is True
        status, text = self.server.send("/infill", self.body(input_suffix=suffix * 2))
        assert (status, json.loads(text)["error"]["code"]) == (400, 400)

    def half_a_body(self) -> None:
        with self.connected(self.body(), n_bytes=20):
            pass

    def connected(self, body: dict[str, Any], n_bytes: int | None = None) -> socket.socket:
        data = json.dumps(body).encode()
        connection = socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT_S)
        head = f"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data[:n_bytes])
        return connection


def test_clients_of_all_kinds_leave_the_server_as_it_was(tmp_path):
    server = Server(tmp_path, "--engine", "own", "--mode", "tree")
    expected = server.ask("/infill", INFILL)["content"]
    clients = [Client(server, number) for number in range(N_CLIENTS)]
    wrong: list[BaseException] = []

    def run(client: Client, end: float) -> None:
        try:
            client.run(end)
        except BaseException as error:
            wrong.append(error)
            raise

    def rounds(seconds: float) -> float:
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=run, args=(client, end)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S + seconds)
        assert not wrong, wrong
        assert server.ask("/infill", INFILL)["content"] == expected
        return resident_mib(server.process.pid)

    try:
        # What is allocated once is allocated in the first round.
        before = rounds(0)
        after = rounds(SECONDS)
        asked = sum((client.done for client in clients), Counter())
        print(f"\n{dict(asked)}: {before:.0f} → {after:.0f} MiB")  # noqa: T201 - for `pytest -s`
        assert min(asked[action.__name__] for action in clients[0].actions) >= N_CLIENTS
        assert after - before < MOST_GROWTH_MIB
    finally:
        errors = server.end()
    assert errors == ""
    kept = server.kept(tmp_path)
    server.close()
    assert [path for path in kept if MARK.encode() in path.read_bytes()] == []
