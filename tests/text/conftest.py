"""A vocabulary of bytes, and a check that completes at a cursor marker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from typed_requests import request_between

from speclsp.drafting.drafter import TokenArray
from speclsp.settings import Settings
from speclsp.text.fitting import Trimmed
from speclsp.text.rules import StopRules, stop_rules
from speclsp.text.stopping import CompletionText, StopReason
from speclsp.vocabulary_protocol import FimTokenIds

END = 256


@dataclass
class ByteVocabulary:
    """Tokens 0 to 255 are bytes, 256 ends a text, and ``pieces`` follow from 257 on."""

    pieces: tuple[bytes, ...] = ()
    n_tokens: int = 257
    metadata: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = "bytes"
    bos: int | None = None
    end_tokens: frozenset[int] = frozenset((END,))
    fim: FimTokenIds = field(default_factory=FimTokenIds)

    def tokenize(self, text: str) -> TokenArray:
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)

    def special(self, text: str) -> int | None:
        return None

    def piece(self, token: int) -> bytes:
        if token < 256:
            return bytes((token,))
        return b"" if token == END else self.pieces[token - 257]


@pytest.fixture(scope="session")
def byte_vocabulary():
    return ByteVocabulary


@dataclass
class Completed:
    """What a completion did to a document."""

    document: str
    done: Trimmed
    stopped_by: StopReason | None
    rules: StopRules
    n_fed: int


@pytest.fixture(scope="session")
def rules_at():
    """The rules at a document's cursor marker."""

    def make(document, language="python", **wanted):
        prefix, suffix = document.split("▮")
        request = request_between(
            uri="file:///a",
            path="a",
            repo_name="r",
            prefix=prefix,
            suffix=suffix,
            language_id=language,
            settings=wanted.pop("of_request", {}),
        )
        return stop_rules(request.settings_over(Settings(**wanted)), request)

    return make


@pytest.fixture(scope="session")
def complete(rules_at):
    """Feed a text byte by byte at a document's cursor marker, and insert what is left of it."""

    def run(document, generated, language="python", **wanted):
        rules = rules_at(document, language, **wanted)
        text = CompletionText(ByteVocabulary(), rules)
        n_fed = 0
        for token in generated.encode():
            n_fed += 1
            if text.feed(token):
                break
        done = text.finish()
        prefix, suffix = document.split("▮")
        result = prefix + done.text + suffix[done.n_replaced :]
        return Completed(result, done, text.stopped_by, rules, n_fed)

    return run
