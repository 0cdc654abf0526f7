"""Counts of a request and of a session, as they cross the completer seam.

Counting, as in the project's statistics everywhere:

* ``n_drafted``: draft tokens that a target pass verified.
* ``n_accepted``: those of them that became output.
* ``n_target_passes``: target decodes that emit at least one token, the last prefill included.
* times are milliseconds of wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

EngineState = Literal["loading", "ready", "unloaded", "off", "failed"]
"""``unloaded``: the weights were freed after idle time; the next request loads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterStats:
    """One drafter's counts.

    A target pass verifies as much of what is proposed as the decision takes: ``n_drafts`` and
    ``n_drafted`` count what was verified.  Alternatives count as parts of one draft.
    """

    n_begin_calls: int = 0
    n_draft_calls: int = 0
    n_accept_calls: int = 0
    n_proposed_drafts: int = 0
    n_proposed: int = 0
    """Tokens that it proposed."""
    n_drafts: int = 0
    n_accepted_drafts: int = 0
    """Drafts of which at least one token was accepted."""
    n_drafted: int = 0
    n_accepted: int = 0
    n_drafted_at: tuple[int, ...] = ()
    """Draft tokens verified at each position of a draft, from the first."""
    n_accepted_at: tuple[int, ...] = ()
    ms_begin: float = 0.0
    ms_draft: float = 0.0
    ms_accept: float = 0.0
    ms_decode: float = 0.0
    """Of these, the time of the drafter's own model inside llama_decode."""
    ms_steps: float = 0.0
    """Of these, the time in passes after the prefill that verified a draft, its own or others'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """The cost of one request's text; alternatives to it are not counted.

    ``n_single_passes`` and ``ms_single_passes`` are the target passes after the prefill that
    carried no draft: their mean time is T(1), against which the speed-up is measured.
    """

    n_prompt: int = 0
    n_prompt_evaluated: int = 0
    n_predicted: int = 0
    n_target_passes: int = 0
    n_decode_passes: int = 0
    """Target passes after the prefill; the prefills that emitted are the difference."""
    n_prefill_predicted: int = 0
    """Tokens that the prefill's last batch emitted: one, and the accepted tokens of its draft."""
    n_drafted: int = 0
    n_accepted: int = 0
    n_draft_passes: int = 0
    """Target passes that verified a draft."""
    n_tried: int = 0
    """Draft positions at which the target's choice was compared with a draft after the prefill: the
    accepted ones, and the first wrong one of each draft that was not right to its end."""
    n_draft_depths: int = 0
    """Sum of these drafts' depths: a draft without branches is as deep as it is long.  Where the
    text ended with a token of a draft, that is no draft token here but the target's own."""
    n_single_passes: int = 0
    drafters: dict[str, DrafterStats] = field(default_factory=dict)
    ms_queue: float = 0.0
    ms_tokenize: float = 0.0
    ms_prompt: float = 0.0
    """Until the first token."""
    ms_network: float = 0.0
    """Of these, what a remote engine does not account for: the network and the server's queue."""
    ms_predict: float = 0.0
    """Everything after the prefill: drafting, verifying, sampling, stop rules."""
    ms_draft: float = 0.0
    ms_verify: float = 0.0
    """Target passes after the prefill, with filling their batches and reading their logits."""
    ms_decode: float = 0.0
    """Of these, the time inside llama_decode; a draft model's is in its drafter's counts."""
    ms_single_passes: float = 0.0
    ms_draft_passes: float = 0.0
    """Target passes after the prefill that verified a draft, with drafting."""
    ms_drafting: float = 0.0
    """Of these, drafting: that of all drafters, and merging."""
    ms_total: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Milliseconds over ``n`` samples."""

    n: int = 0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    """The contents of the project index."""

    n_files: int = 0
    n_tokens: int = 0
    n_skipped: int = 0
    building: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditStats:
    """Sums over a session's next edits, which are in no other sum."""

    n_asked: int = 0
    n_proposed: int = 0
    """Edits that requests were answered with."""
    n_kept: int = 0
    """Requests that were answered with what is left of an edit of which the user typed a part."""
    n_shown: int = 0
    n_accepted: int = 0
    n_declined: int = 0
    withheld: dict[str, int] = field(default_factory=dict)
    """By reason: how many requests were answered without an edit."""
    totals: RequestStats = field(default_factory=RequestStats)
    answer: Percentiles = field(default_factory=Percentiles)
    """From the request to the edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """Sums over a session, from ``initialize`` to ``exit``."""

    n_requests: int = 0
    n_completions: int = 0
    """Requests that the engine answered with text."""
    n_empty: int = 0
    n_cancelled: int = 0
    n_failed: int = 0
    n_cut: int = 0
    """Requests whose text ended where the model was not sure."""
    n_withheld: int = 0
    """Requests whose text was too uncertain from its beginning; they count as empty, too."""
    n_memory: int = 0
    """Requests that were answered with what is left of an earlier answer."""
    n_filtered: int = 0
    """Automatic requests that a rule answered empty, without the model."""
    n_coalesced: int = 0
    """Requests that joined a running generation."""
    n_prefetches: int = 0
    """Generations for what follows a suggestion on screen, finished or not."""
    n_prefetches_used: int = 0
    """Those that answered a request."""
    prefetch: RequestStats = field(default_factory=RequestStats)
    """Their cost, which is not in ``totals``."""
    n_shown: int = 0
    """Suggestions that were on screen for half a second, or have ended; each counts once."""
    n_accepted_items: int = 0
    """Those of which the end was accepted."""
    n_partially_accepted: int = 0
    """Those of which only words or lines were."""
    n_chars_accepted: int = 0
    n_chars_shown: int = 0
    """Characters of the suggestions that were shown."""
    n_chars_typed_over: int = 0
    """Of these, those in whose place something else was typed."""
    totals: RequestStats = field(default_factory=RequestStats)
    edits: EditStats = field(default_factory=EditStats)
    latency: dict[str, Percentiles] = field(default_factory=dict)
    """By stage: ``answer``, from a request's arrival at the window's server to a suggestion that
    was not given before, which is what users are told; queue, tokenize, prompt, draft, verify,
    predict and total, in the engine; and ``memory``, of those requests that needed no model."""
    why_nothing: str = ""
    """Why the model's latest answer was withheld or empty: ``not sure (0.21 of 0.3)`` or ``too slow
    (nothing in 3 s)``; otherwise empty."""
    answer_ms: tuple[float, ...] = ()
    """The times of which ``answer`` has the percentiles, the oldest first."""
    index: IndexStats = field(default_factory=IndexStats)
    state: EngineState = "loading"
    engine: str = ""
    """The remote engine's kind and host; empty where the model is on this machine."""
    lacks: tuple[str, ...] = ()
    """What the remote engine cannot do."""
    model: str = ""
    draft_model: str = ""
    next_edits: str = ""
    """The format of next edits and the model that proposes them, or why there are none."""
    layers: dict[str, int] = field(default_factory=dict)
    """Layers of the target model per device name."""
    n_ctx: int = 0
    n_idle_evaluated: int = 0
    """Prompt tokens evaluated in idle time for later requests; in no other sum."""
    is_idle: bool = True
    """Whether nothing is left to do, idle work included."""
    verify_ms: tuple[tuple[int, float], ...] = ()
    """(k, T(k) in milliseconds): target passes over k tokens, as measured."""
