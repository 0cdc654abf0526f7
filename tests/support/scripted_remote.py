"""A scripted remote engine: it answers with given pieces, and keeps what it was sent."""

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from speclsp.backends.http.messages import (
    Piece,
    RemoteModel,
    RemoteParams,
    RemotePrompt,
    RemoteStats,
)
from speclsp.errors import RemoteError

DEAD = RemoteError("The remote engine at desk:8080 cannot be reached.", remedy="Start it.")


class ScriptedRemote:
    """Stands in for :class:`speclsp.backends.http.engine.HttpEngine`; its attributes steer it."""

    def __init__(self, *pieces: str, model: RemoteModel | None = None) -> None:
        self.pieces = [Piece(piece) for piece in pieces]
        self.model = model or RemoteModel(
            kind="llama-server", name="qwen2.5-coder-7b", n_ctx=4096, takes_text=True, logprobs=True
        )
        self.vocabulary: dict[str, list[int]] = {}
        """The tokens of texts that the server is asked about."""
        self.error: RemoteError | None = None
        self.stats = RemoteStats(n_prompt=7, n_cached=5, n_generated=3, ms_network=2.0)
        self.errors_end_with_connect = False
        self.hangs = False
        """Set: to connect takes until it is closed."""
        self.go_on = threading.Event()
        """Cleared: a stream stalls behind its first piece."""
        self.go_on.set()
        self.sent: list[tuple[RemotePrompt, RemoteParams]] = []
        self.prefilled: list[RemotePrompt] = []
        self.warning = ""
        self.n_given = 0
        self.n_connects = 0
        self.is_closed = False

    def connect(self) -> RemoteModel:
        self.n_connects += 1
        while self.hangs and not self.is_closed:
            time.sleep(0.005)
        if self.errors_end_with_connect:
            self.error = None
        if self.error is not None:
            raise self.error
        return self.model

    def stream(
        self,
        prompt: RemotePrompt,
        params: RemoteParams,
        interrupted: Callable[[], bool],
        deadline_s: float,
    ) -> Generator[Piece]:
        if self.error is not None:
            raise self.error
        self.sent.append((prompt, params))
        for idx, piece in enumerate(self.pieces):
            while idx and not self.go_on.is_set() and not interrupted():
                time.sleep(0.005)
            if interrupted():
                return
            self.n_given += 1
            yield piece

    def prefill(self, prompt: RemotePrompt, interrupted: Callable[[], bool]) -> None:
        self.prefilled.append(prompt)

    def tokenize(self, text: str, *, special: bool = False) -> list[int] | None:
        return self.vocabulary.get(text)

    def request(self, prompt: RemotePrompt, params: RemoteParams) -> tuple[str, dict[str, Any]]:
        body = {"prompt": prompt.text, "n_predict": params.n_predict}
        return "/completion", body

    def close(self) -> None:
        self.is_closed = True
