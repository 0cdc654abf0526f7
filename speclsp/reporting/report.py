"""The statistics as lines for the log.

Lines that llama.cpp prints too have its format, with our figures at the end.  The symbols are those
of :mod:`speclsp.reporting.gain`; T(n) is the time of a target pass over n tokens.  The speed-up is
relative to decoding the same tokens one at a time.  T(1) is the mean time of the passes after the
prefill that carried no draft, thus for the same model, context lengths and load.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclsp.reporting.advice import advice_lines
from speclsp.reporting.gain import (
    expectation,
    measured_speedup,
    measured_step_speedup,
    n_draft_steps,
    n_step_tokens,
    own_ms,
    single_pass_ms,
    tokens_per_pass,
)
from speclsp.reporting.session import STAGES
from speclsp.seam.completion import CompletionResult
from speclsp.seam.edit import EditResult
from speclsp.seam.statistics import DrafterStats, Percentiles, RequestStats, SessionStats
from speclsp.settings import Settings


def report_lines(stats: SessionStats, settings: Settings) -> list[str]:
    """Return the lines of the session's statistics block, next edits last; none without requests.

    ``settings`` are those in effect, which the advice is about.
    """
    if not stats.n_requests:
        return edit_lines(stats)
    totals = stats.totals
    n_reused = totals.n_prompt - totals.n_prompt_evaluated
    share = 100.0 * n_reused / totals.n_prompt if totals.n_prompt else 0.0
    return [
        *_session_lines(stats),
        *timing_lines(totals),
        (
            f"KV reuse = {share:.1f} % ({totals.n_prompt} prompt tokens, "
            f"{totals.n_prompt_evaluated} evaluated, {n_reused} reused)"
        ),
        *((*_speculation_lines(stats), *_cost_lines(stats)) if not stats.engine else ()),
        *(_remote_lines(stats) if stats.engine else ()),
        *(
            _latency_line(stage, p)
            for stage, p in stats.latency.items()
            if not (stats.engine and stage == "verify")
        ),
        *edit_lines(stats),
        *advice_lines(totals, settings, has_gpu=not stats.layers.keys() <= {"CPU"}),
    ]


def request_line(result: CompletionResult) -> str:
    """Return one completion's line for the log."""
    stats, generated = result.stats, result.generated
    drafted = " ".join(f"{start}-{end}" for start, end in generated.drafted)
    ending = f" ms{f', characters from drafts: {drafted}' if drafted else ''}"
    if result.source != "model" and not stats.n_target_passes:
        return (
            f"completion {generated.completion_id}: by {result.source}, "
            f"{len(generated.text)} characters in {stats.ms_total:.2f}{ending}"
        )
    drafters = ", ".join(
        f"{name} {drafter.n_accepted}/{drafter.n_drafted}"
        for name, drafter in stats.drafters.items()
        if drafter.n_drafted
    )
    return (
        f"completion {generated.completion_id}: {generated.finish_reason}, "
        f"{stats.n_predicted} tokens in {stats.n_target_passes} target passes "
        f"({tokens_per_pass(stats):.2f} per pass), "
        f"prompt {stats.n_prompt_evaluated}/{stats.n_prompt} evaluated, "
        f"accepted {stats.n_accepted}/{stats.n_drafted} draft tokens"
        f"{f' ({drafters})' if drafters else ''}, "
        + ", ".join(f"{stage} {getattr(stats, f'ms_{stage}'):.1f}" for stage in STAGES)
        + (f", network {stats.ms_network:.1f}" if stats.ms_network else "")
        + ending
    )


def edit_lines(stats: SessionStats) -> list[str]:
    """Return the lines on next edits, which are in no other line; none without requests."""
    edits, totals = stats.edits, stats.edits.totals
    if not edits.n_asked:
        return []
    model = f"; {stats.next_edits}" if stats.next_edits else ""
    lines = [
        (
            f"next edits = {edits.n_asked} asked ({edits.n_proposed} proposed, "
            f"{edits.n_kept} kept while typed, {edits.n_shown} shown), "
            f"accepted = {edits.n_accepted}, declined = {edits.n_declined}{model}"
        )
    ]
    if edits.withheld:
        by_reason = sorted(edits.withheld.items(), key=lambda one: (-one[1], one[0]))
        reasons = ", ".join(f"{reason} {n}" for reason, n in by_reason)
        lines.append(f"next edits without an edit: {reasons}")
    if totals.n_target_passes:
        lines += [
            (
                f"next edits: tokens per target pass = {tokens_per_pass(totals):.2f} "
                f"({totals.n_predicted} tokens / {totals.n_target_passes} passes), "
                f"prompt tokens = {totals.n_prompt} ({totals.n_prompt_evaluated} evaluated)"
            ),
            *(drafter_line(name, one) for name, one in totals.drafters.items()),
        ]
    if edits.answer.n:
        lines.append(_latency_line("edit", edits.answer))
    return lines


def edit_line(result: EditResult) -> str:
    """Return the line of one request for the next edit for the log."""
    stats = result.stats
    outcome = result.withheld or ("proposed" if result.hunks else "none")
    certainty = f" at {result.probability:.2f}" if result.probability is not None else ""
    return (
        f"next edit {result.completion_id}: {outcome}{certainty}, {result.finish_reason}, "
        f"{stats.n_predicted} tokens in {stats.n_target_passes} target passes "
        f"({tokens_per_pass(stats):.2f} per pass), "
        f"prompt {stats.n_prompt_evaluated}/{stats.n_prompt} evaluated, "
        f"accepted {stats.n_accepted}/{stats.n_drafted} draft tokens, total {stats.ms_total:.1f} ms"
    )


def timing_lines(stats: RequestStats) -> list[str]:
    """Return llama.cpp's lines on the times of a request or a session."""
    lines = []
    n_all, ms_all = 0, 0.0
    for name, ms, n_tokens in (
        ("prompt eval", stats.ms_prompt, stats.n_prompt_evaluated),
        ("       eval", stats.ms_predict, stats.n_predicted),
    ):
        per_token = ms / n_tokens if n_tokens else 0.0
        per_second = 1e3 * n_tokens / ms if ms > 0.0 else 0.0
        lines.append(
            f"{name} time = {ms:10.2f} ms / {n_tokens:5d} tokens "
            f"({per_token:8.2f} ms per token, {per_second:8.2f} tokens per second)"
        )
        n_all, ms_all = n_all + n_tokens, ms_all + ms
    return [*lines, f"      total time = {ms_all:10.2f} ms / {n_all:5d} tokens"]


def draft_acceptance_line(stats: RequestStats) -> str:
    """Return llama.cpp's line on all drafts of a request or session, with the mean length."""
    n_drafts = stats.n_draft_passes
    rate = stats.n_accepted / stats.n_drafted if stats.n_drafted else 0.0
    mean_length = 1.0 + stats.n_accepted / n_drafts if n_drafts else 1.0
    return (
        f"draft acceptance rate = {rate:0.5f} ({stats.n_accepted:5d} accepted / "
        f"{stats.n_drafted:5d} generated), mean len = {mean_length:5.2f}"
    )


def drafter_line(name: str, stats: DrafterStats) -> str:
    """Return llama.cpp's ``statistics`` line of one drafter, then what it proposed.

    As in llama.cpp's logs the name has underscores, and generated tokens are those that the target
    verified: over all drafters they add up to those of :func:`draft_acceptance_line`.
    """
    accepted = ""
    if stats.n_drafts:
        mean_length = 1.0 + stats.n_accepted / stats.n_drafts
        rates = ", ".join(f"{n / stats.n_drafts:.3f}" for n in stats.n_accepted_at)
        accepted = f", #mean acc len = {mean_length:.2f}, #acc rate/pos = ({rates})"
    each = f", T_draft = {own_ms(stats) / stats.n_proposed:.3f} ms" if stats.n_proposed else ""
    return (
        f"statistics {name.replace('-', '_'):>16s}: #calls(b,g,a) = {stats.n_begin_calls:4d} "
        f"{stats.n_draft_calls:6d} {stats.n_accept_calls:6d}, "
        f"#gen drafts = {stats.n_drafts:6d}, #acc drafts = {stats.n_accepted_drafts:5d}, "
        f"#gen tokens = {stats.n_drafted:6d}, #acc tokens = {stats.n_accepted:5d}{accepted}, "
        f"dur(b,g,a) = {stats.ms_begin:.3f}, {stats.ms_draft:.3f}, {stats.ms_accept:.3f} ms, "
        f"#proposed drafts = {stats.n_proposed_drafts:6d}, "
        f"#proposed tokens = {stats.n_proposed:6d}{each}"
    )


def verify_times_line(verify_ms: Sequence[tuple[int, float]]) -> str:
    """Return T(k) as measured: ``verify_ms`` has (k, milliseconds)."""
    sizes = ", ".join(str(size) for size, _ in verify_ms)
    times = ", ".join(f"{ms:.3g}" for _, ms in verify_ms)
    return f"T(n) as measured for n = {sizes} tokens: {times} ms"


def _latency_line(stage: str, p: Percentiles) -> str:
    return (
        f"latency {stage:>8s}: p50 = {p.p50:8.2f}, p95 = {p.p95:8.2f}, p99 = {p.p99:8.2f} ms "
        f"({p.n} requests)"
    )


def _session_lines(stats: SessionStats) -> list[str]:
    """Return the lines on requests, model, prefetches, idle work and index."""
    requests = (
        f"requests = {stats.n_requests} ({stats.n_completions} with text, {stats.n_cut} cut, "
        f"{stats.n_empty} empty, {stats.n_withheld} withheld, {stats.n_cancelled} cancelled, "
        f"{stats.n_failed} failed), "
        f"suggestions shown = {stats.n_shown}, accepted = {stats.n_accepted_items} (in part "
        f"{stats.n_partially_accepted}), characters shown = {stats.n_chars_shown}, "
        f"accepted = {stats.n_chars_accepted}, typed over = {stats.n_chars_typed_over}"
    )
    lines = [requests]
    if stats.engine:
        lacks = "; ".join(stats.lacks)
        lines.append(f"model = {stats.model}, n_ctx = {stats.n_ctx}, remote engine: {lacks}")
    elif stats.model:
        draft = f", draft model = {stats.draft_model}" if stats.draft_model else ""
        layers = ", ".join(f"{device} {n}" for device, n in stats.layers.items()) or "none"
        lines.append(
            f"model = {stats.model}{draft}, n_ctx = {stats.n_ctx}, layers per device: {layers}"
            + "".join(f", {lack}" for lack in stats.lacks)
        )
    if stats.n_memory or stats.n_filtered or stats.n_coalesced:
        lines.append(
            f"without the model = {stats.n_memory} from memory, {stats.n_filtered} filtered; "
            f"coalesced requests = {stats.n_coalesced}"
        )
    beside = "beside the sums below"
    if stats.n_prefetches:
        lines.append(
            f"prefetches = {stats.n_prefetches} ({stats.n_prefetches_used} used), "
            f"{stats.prefetch.n_prompt_evaluated} prompt tokens evaluated, "
            f"{stats.prefetch.n_predicted} tokens predicted, {beside}"
        )
    if stats.n_idle_evaluated:
        lines.append(f"idle time = {stats.n_idle_evaluated} prompt tokens evaluated, {beside}")
    index = stats.index
    if index.n_files or index.n_skipped or index.building:
        building = ", still building" if index.building else ""
        lines.append(
            f"index = {index.n_files} files, {index.n_tokens} tokens, "
            f"{index.n_skipped} files skipped{building}"
        )
    return lines


def _remote_lines(stats: SessionStats) -> list[str]:
    """Return the lines on the times to the first token and the server's drafts."""
    totals = stats.totals
    n_answers = totals.n_prefill_predicted
    first_ms, network_ms = (ms / max(1, n_answers) for ms in (totals.ms_prompt, totals.ms_network))
    drafts = "drafts: none (remote engine)"
    if totals.n_drafted:
        rate = totals.n_accepted / totals.n_drafted
        drafts = (
            f"drafts of the server: acceptance rate = {rate:0.5f} ({totals.n_accepted:5d} "
            f"accepted / {totals.n_drafted:5d} generated)"
        )
    return [
        (
            f"time to first token = {first_ms:.2f} ms, of which network and queue = "
            f"{network_ms:.2f} ms ({n_answers} answers)"
        ),
        drafts,
    ]


def _speculation_lines(stats: SessionStats) -> list[str]:
    totals = stats.totals
    speedup, single_ms = measured_speedup(totals), single_pass_ms(totals)
    measured = "not measured: no pass after the prefill was without a draft"
    if speedup is not None:
        measured = f"{speedup:.2f}x (T(1) = {single_ms:.2f} ms)"
    return [
        (
            f"tokens per target pass = {tokens_per_pass(totals):.2f} "
            f"({totals.n_predicted} tokens / {totals.n_target_passes} passes)"
        ),
        f"speed-up = {measured}",
        *(_draft_pass_lines(totals) if totals.n_target_passes else ()),
        draft_acceptance_line(totals),
        *(drafter_line(name, one) for name, one in totals.drafters.items()),
    ]


def _draft_pass_lines(totals: RequestStats) -> list[str]:
    """Return the lines on passes with a draft: their gain as expected and as measured."""
    share = 100.0 * totals.n_draft_passes / totals.n_target_passes
    lines = [
        f"passes with a draft = {share:.1f} % ({totals.n_draft_passes} of {totals.n_target_passes})"
    ]
    expected = expectation(totals)
    if expected is None:
        return lines
    n_tokens = n_step_tokens(totals) / n_draft_steps(totals)
    measured = measured_step_speedup(totals)
    speedup = "E[speed-up of a step] = E[tokens per step]/(1 + k·T_draft/T_target): not known"
    times = ""
    if measured is not None:
        ratio = expected.pass_ms / expected.target_ms
        speedup = (
            "E[speed-up of a step] = E[tokens per step]/(1 + k·T_draft/T_target) = "
            f"{expected.speedup():.2f}x; with T(k+1)/T(1) = {ratio:.2f}: "
            f"{expected.speedup(ratio):.2f}x; measured {measured:.2f}x"
        )
        times = (
            f", T_draft = {expected.draft_ms:.3f} ms ({_drafting_by(totals, expected.k)}), "
            f"T_target = {expected.target_ms:.2f} ms"
        )
    return [
        *lines,
        (
            f"E[accepted] = p·(1 - p^k)/(1 - p) = {expected.n_accepted:.2f} (approximately "
            f"(1 - p^k)/(1 - p) = {expected.n_accepted_roughly:.2f}), measured {n_tokens - 1.0:.2f}"
        ),
        (
            f"E[tokens per step] = (1 - p^(k+1))/(1 - p) = {expected.n_tokens:.2f}, "
            f"measured {n_tokens:.2f}"
        ),
        speedup,
        f"with p = {expected.p:.3f}, k = {expected.k:.2f}{times}",
    ]


def _drafting_by(totals: RequestStats, k: float) -> str:
    """Return T_draft by drafter, in steps with a draft of ``k`` tokens on the mean."""
    n_tokens = n_draft_steps(totals) * k
    by_name = {name: one.ms_steps for name, one in totals.drafters.items()}
    by_name["merging"] = totals.ms_drafting - sum(by_name.values())
    return ", ".join(f"{name} {max(0.0, ms) / n_tokens:.3f}" for name, ms in by_name.items())


def _cost_lines(stats: SessionStats) -> list[str]:
    """Return the lines on the times per pass and T(n)."""
    totals = stats.totals
    lines = []
    if totals.n_decode_passes:
        host_ms = max(0.0, totals.ms_predict - totals.ms_draft - totals.ms_verify)
        n_passes = totals.n_decode_passes
        lines.append(
            f"time per pass: draft = {totals.ms_draft / n_passes:.3f}, "
            f"verify = {totals.ms_verify / n_passes:.3f}, host = {host_ms / n_passes:.3f} ms "
            f"({n_passes} passes after the prefill)"
        )
    if stats.verify_ms:
        lines.append(verify_times_line(stats.verify_ms))
    return lines
