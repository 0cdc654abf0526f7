"""llama-cpp-python's own ``Llama`` with its prompt lookup, as a process that is asked by lines.

``python -m benchmarks.peers.lookup_worker OPTIONS``: one line of JSON on the standard input is a
request like those to ``/infill``, and one on the standard output its answer.  Nothing else of ours
is part of it, since it is what the others are compared with: its memory and its time are those of
that package.
"""

from __future__ import annotations

import os
import sys
import time
from typing import IO, Any, Final

import llama_cpp
import msgspec
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from benchmarks.peers.infill import JsonObject


def without_dedent(text: str, n_indent: int) -> str:
    """Return a text up to the first line that is indented by less than ``n_indent`` characters.

    The first line continues the cursor's, and a line of blanks alone is none yet.
    """
    first, *rest = text.split("\n")
    kept = [first]
    for line in rest:
        inner = line.lstrip(" \t")
        if inner and len(line) - len(inner) < n_indent:
            return "\n".join([*kept, ""])
        kept.append(line)
    return text


N_DRAFT_ON_GPU: Final = 10
N_DRAFT_ON_CPU: Final = 2
"""Tokens that its documentation recommends to draft."""
N_PREFIX_TOKENS: Final = 768
N_SUFFIX_TOKENS: Final = 256
"""Most tokens before and behind the cursor, as llama-server takes them with batches of 1024."""
_BATCH: Final = 1024
_STDOUT: Final = 1
_STDERR: Final = 2


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's one argument, as JSON."""

    model: str
    n_threads: int
    n_gpu_layers: int
    n_context: int


class Counts:
    """What a request's decodes were, seen from outside of ``Llama``."""

    def __init__(self, llama: Any) -> None:
        context = llama._ctx  # noqa: SLF001 - nothing public stands around llama_decode
        self._evaluate, self._decode, self._sample = llama.eval, context.decode, llama.sample
        llama.eval, context.decode, llama.sample = self._counted, self._timed, self._sampled
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.started = time.perf_counter()
        self.prompt_ended = self.started
        self.n_prompt_evaluated = self.n_evaluations = self.n_drafted = self.n_sampled = 0
        self.decode_s = 0.0

    def _counted(self, tokens: list[int]) -> None:
        if self.n_evaluations == 0:
            self.n_prompt_evaluated = len(tokens)
        else:
            self.n_drafted += max(0, len(tokens) - 1)
        self.n_evaluations += 1
        self._evaluate(tokens)
        if self.n_sampled == 0:
            # Choosing the first token is a step's work already, as it is on our side.
            self.prompt_ended = time.perf_counter()

    def _timed(self, batch: Any) -> None:
        started = time.perf_counter()
        self._decode(batch)
        if self.n_sampled:
            self.decode_s += time.perf_counter() - started

    def _sampled(self, *args: Any, **kwargs: Any) -> int:
        token = int(self._sample(*args, **kwargs))
        self.n_sampled += 1
        return token

    def timings(self, n_prompt: int) -> JsonObject:
        """Return the counts as llama-server names them, and the time inside of llama_decode."""
        ended = time.perf_counter()
        return {
            "timings/cache_n": n_prompt - self.n_prompt_evaluated,
            "timings/prompt_n": self.n_prompt_evaluated,
            "timings/prompt_ms": 1000 * (self.prompt_ended - self.started),
            "timings/predicted_n": self.n_sampled,
            "timings/predicted_ms": 1000 * (ended - self.prompt_ended),
            "timings/draft_n": self.n_drafted,
            "timings/draft_n_accepted": max(0, self.n_sampled - self.n_evaluations),
            "timings/decode_ms": 1000 * self.decode_s,
        }


class LookupModel:
    """The model, and its answers."""

    def __init__(self, options: WorkerOptions) -> None:
        self.is_on_gpu = options.n_gpu_layers != 0 and bool(llama_cpp.llama_supports_gpu_offload())
        n_draft = N_DRAFT_ON_GPU if self.is_on_gpu else N_DRAFT_ON_CPU
        self._llama = llama_cpp.Llama(
            model_path=options.model,
            n_ctx=options.n_context,
            n_batch=_BATCH,
            n_ubatch=_BATCH,
            n_threads=options.n_threads,
            n_threads_batch=options.n_threads,
            n_gpu_layers=options.n_gpu_layers,
            draft_model=LlamaPromptLookupDecoding(num_pred_tokens=n_draft),
            # A draft model needs the logits of all tokens.  The package sees to that by itself, but
            # makes room for those of one batch only, and a prompt that goes beyond it fails.
            logits_all=True,
            verbose=False,
        )
        vocabulary = llama_cpp.llama_model_get_vocab(self._llama.model)
        self._marks: tuple[int, int, int] = (
            llama_cpp.llama_vocab_fim_pre(vocabulary),
            llama_cpp.llama_vocab_fim_suf(vocabulary),
            llama_cpp.llama_vocab_fim_mid(vocabulary),
        )
        if min(self._marks) < 0:
            raise ValueError("the model has no tokens for filling in.")
        self._counts = Counts(self._llama)

    def answer(self, request: JsonObject) -> JsonObject:
        """Return the text in the middle, and what it cost."""
        given = request["prompt"]
        tokens: list[int] = given if isinstance(given, list) else self._prompt(request)
        self._counts.begin()
        greedy = request.get("temperature") == 0.0
        found = self._llama.create_completion(
            tokens,
            max_tokens=request["n_predict"],
            temperature=0.0 if greedy else 1.0,
            top_k=request.get("top_k", 0),
            top_p=request.get("top_p", 1.0),
            min_p=0.0,
            stop=request.get("stop", []),
            stopping_criteria=None if greedy else self._rules(request, len(tokens)),
        )
        timings = self._counts.timings(len(tokens))
        text = found["choices"][0]["text"]
        return {"content": without_dedent(text, request.get("n_indent", 0)), **timings}

    def _prompt(self, request: JsonObject) -> list[int]:
        begins, separates, ends = self._marks
        before = self._tokens(request["input_prefix"])
        line = self._tokens(request["prompt"])
        after = self._tokens(request["input_suffix"])
        after = after[: max(0, N_SUFFIX_TOKENS - 2 - len(line))]
        return [begins, *before[-N_PREFIX_TOKENS:], *line, separates, *after, ends]

    def _tokens(self, text: str) -> list[int]:
        tokens: list[int] = self._llama.tokenize(text.encode(), add_bos=False, special=False)
        return tokens

    def _rules(self, request: JsonObject, n_prompt: int) -> Any:
        """Return llama-server's rules: they end a text at a line end after a while, or a dedent."""
        limit_s = request["t_max_predict_ms"] / 1000
        n_indent = request["n_indent"]

        def are_met(tokens: Any, _logits: Any) -> bool:
            written: bytes = self._llama.detokenize(tokens[n_prompt:].tolist())
            text = written.decode(errors="ignore")
            is_late = time.perf_counter() - self._counts.prompt_ended > limit_s
            return (is_late and text.endswith("\n")) or without_dedent(text, n_indent) != text

        return llama_cpp.StoppingCriteriaList([are_met])


def main() -> None:
    """Answer line by line until the input ends."""
    # What llama.cpp writes to the standard output is no answer.
    answers = os.fdopen(os.dup(_STDOUT), "wb")
    os.dup2(_STDERR, _STDOUT)
    model = LookupModel(msgspec.json.decode(sys.argv[1], type=WorkerOptions))
    _say(answers, {"is_on_gpu": model.is_on_gpu})
    for line in sys.stdin.buffer:
        _say(answers, model.answer(msgspec.json.decode(line)))


def _say(answers: IO[bytes], what: JsonObject) -> None:
    answers.write(msgspec.json.encode(what) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
