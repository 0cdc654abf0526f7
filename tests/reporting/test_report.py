"""The statistics block: llama.cpp's own lines, honest speed-ups, the speed-up that was measured."""

import dataclasses

from drafted_session import LOOKUP, totals
from msgspec import structs

from speclsp.reporting.report import (
    draft_acceptance_line,
    drafter_line,
    edit_line,
    report_lines,
    request_line,
    timing_lines,
)
from speclsp.seam.completion import CompletionResult, GeneratedText
from speclsp.seam.edit import EditResult
from speclsp.seam.statistics import (
    DrafterStats,
    EditStats,
    IndexStats,
    Percentiles,
    RequestStats,
    SessionStats,
)
from speclsp.settings import Settings


def test_llama_cpps_statistics_line():
    assert drafter_line("prompt-lookup", LOOKUP) == (
        "statistics    prompt_lookup: #calls(b,g,a) =   12    340    100, #gen drafts =    100, "
        "#acc drafts =    80, #gen tokens =    297, #acc tokens =   171, #mean acc len = 2.71, "
        "#acc rate/pos = (0.800, 0.600, 0.310), dur(b,g,a) = 1.234, 23.000, 0.500 ms, "
        "#proposed drafts =    110, #proposed tokens =    620, T_draft = 0.040 ms"
    )


def test_a_drafters_mean_length_is_that_of_the_drafts_that_were_verified():
    # A drafter without branches is told of each pass in which another proposed the same.
    told_of_more = dataclasses.replace(LOOKUP, n_accept_calls=900)
    same, _, rest = drafter_line("prompt-lookup", LOOKUP).partition("   100, #gen drafts")
    assert drafter_line("prompt-lookup", told_of_more) == f"{same}   900, #gen drafts{rest}"


def test_llama_cpps_statistics_line_before_anything_was_verified():
    assert drafter_line("draft", DrafterStats(n_begin_calls=1, n_draft_calls=2)) == (
        "statistics            draft: #calls(b,g,a) =    1      2      0, #gen drafts =      0, "
        "#acc drafts =     0, #gen tokens =      0, #acc tokens =     0, "
        "dur(b,g,a) = 0.000, 0.000, 0.000 ms, #proposed drafts =      0, #proposed tokens =      0"
    )


def test_llama_cpps_draft_acceptance_line():
    assert draft_acceptance_line(totals()) == (
        "draft acceptance rate = 0.57576 (  171 accepted /   297 generated), mean len =  2.71"
    )
    assert draft_acceptance_line(RequestStats()) == (
        "draft acceptance rate = 0.00000 (    0 accepted /     0 generated), mean len =  1.00"
    )


def test_the_block_has_everything():
    stats = SessionStats(
        n_requests=14,
        n_completions=12,
        n_empty=1,
        n_failed=1,
        n_shown=9,
        n_accepted_items=4,
        n_partially_accepted=2,
        n_chars_accepted=77,
        n_chars_shown=180,
        n_chars_typed_over=60,
        n_cut=5,
        totals=totals(),
        latency={"total": Percentiles(n=12, p50=10.0, p95=20.0, p99=30.5)},
        index=IndexStats(n_files=3, n_tokens=5000, n_skipped=1, building=True),
        state="ready",
        model="coder",
        draft_model="tiny",
        layers={"CUDA0": 28, "CPU": 1},
        n_ctx=4096,
        verify_ms=((1, 6.4), (8, 13.7)),
    )
    assert report_lines(stats, Settings()) == [
        (
            "requests = 14 (12 with text, 5 cut, 1 empty, 0 withheld, 0 cancelled, 1 failed), "
            "suggestions shown = 9, accepted = 4 (in part 2), "
            "characters shown = 180, accepted = 77, typed over = 60"
        ),
        "model = coder, draft model = tiny, n_ctx = 4096, layers per device: CUDA0 28, CPU 1",
        "index = 3 files, 5000 tokens, 1 files skipped, still building",
        (
            "prompt eval time =     100.00 ms /   250 tokens "
            "(    0.40 ms per token,  2500.00 tokens per second)"
        ),
        (
            "       eval time =    5000.00 ms /   400 tokens "
            "(   12.50 ms per token,    80.00 tokens per second)"
        ),
        "      total time =    5100.00 ms /   650 tokens",
        "KV reuse = 75.0 % (1000 prompt tokens, 250 evaluated, 750 reused)",
        "tokens per target pass = 1.75 (400 tokens / 229 passes)",
        "speed-up = 0.78x (T(1) = 10.00 ms)",
        "passes with a draft = 43.7 % (100 of 229)",
        (
            "E[accepted] = p·(1 - p^k)/(1 - p) = 1.57 (approximately (1 - p^k)/(1 - p) = 2.21), "
            "measured 1.71"
        ),
        "E[tokens per step] = (1 - p^(k+1))/(1 - p) = 2.57, measured 2.71",
        (
            "E[speed-up of a step] = E[tokens per step]/(1 + k·T_draft/T_target) = 2.43x; "
            "with T(k+1)/T(1) = 3.54: 0.71x; measured 0.75x"
        ),
        (
            "with p = 0.713, k = 2.97, T_draft = 0.202 ms (prompt-lookup 0.067, merging 0.135), "
            "T_target = 10.00 ms"
        ),
        "draft acceptance rate = 0.57576 (  171 accepted /   297 generated), mean len =  2.71",
        drafter_line("prompt-lookup", LOOKUP),
        (
            "time per pass: draft = 1.055, verify = 18.433, host = 3.553 ms "
            "(217 passes after the prefill)"
        ),
        "T(n) as measured for n = 1, 8 tokens: 6.4, 13.7 ms",
        "latency    total: p50 =    10.00, p95 =    20.00, p99 =    30.50 ms (12 requests)",
        (
            "advice: speculation costs more than it saves here (0.78x), most by prompt-lookup: "
            "229.0 ms to draft and merge, 1830.0 ms to verify, for 1710.0 ms saved: lower "
            "`drafter_options.prompt-lookup.num_pred_tokens` (10) or set "
            "`speculation` to false."
        ),
    ]


def test_next_edits_have_a_block_of_their_own():
    edits = EditStats(
        n_asked=9,
        n_proposed=3,
        n_kept=1,
        n_shown=3,
        n_accepted=2,
        n_declined=1,
        withheld={"undoes": 1, "unchanged": 3, "cancelled": 1},
        totals=totals(n_predicted=400, n_target_passes=80, n_prompt=5000, n_prompt_evaluated=900),
        answer=Percentiles(n=4, p50=200.0, p95=300.0, p99=310.0),
    )
    stats = SessionStats(edits=edits, next_edits="format sweep-8, sweep.gguf (Sweep 1.5B)")
    lines = report_lines(stats, Settings())
    assert lines == [
        (
            "next edits = 9 asked (3 proposed, 1 kept while typed, 3 shown), "
            "accepted = 2, declined = 1; format sweep-8, sweep.gguf (Sweep 1.5B)"
        ),
        "next edits without an edit: unchanged 3, cancelled 1, undoes 1",
        (
            "next edits: tokens per target pass = 5.00 (400 tokens / 80 passes), "
            "prompt tokens = 5000 (900 evaluated)"
        ),
        drafter_line("prompt-lookup", LOOKUP),
        "latency     edit: p50 =   200.00, p95 =   300.00, p99 =   310.00 ms (4 requests)",
    ]
    with_completions = report_lines(SessionStats(n_requests=1, edits=edits), Settings())
    assert with_completions[0].startswith("requests = 1 ")
    assert with_completions[-4:] == lines[-4:]
    assert report_lines(SessionStats(), Settings()) == []


def test_the_line_of_an_edit_says_what_withheld_it():
    result = EditResult(
        completion_id="e1",
        finish_reason="stop",
        stats=totals(n_predicted=30, n_target_passes=6, n_prompt=500, n_prompt_evaluated=90),
        withheld="undoes",
        probability=0.875,
    )
    assert edit_line(result).startswith(
        "next edit e1: undoes at 0.88, stop, 30 tokens in 6 target passes (5.00 per pass), "
        "prompt 90/500 evaluated, accepted 171/297 draft tokens, total "
    )


def test_what_was_not_measured_is_not_claimed():
    no_singles = totals(n_single_passes=0, ms_single_passes=0.0)
    lines = report_lines(SessionStats(n_requests=1, totals=no_singles), Settings())
    assert "speed-up = not measured: no pass after the prefill was without a draft" in lines
    (expected,) = [line for line in lines if line.startswith("E[speed-up of a step]")]
    assert expected.endswith("/(1 + k·T_draft/T_target): not known")
    (figures,) = [line for line in lines if line.startswith("with p = ")]
    assert "T_target" not in figures
    assert not any("as measured" in line for line in lines)


def test_a_session_without_requests_has_no_block():
    assert report_lines(SessionStats(model="coder", index=IndexStats(n_files=3)), Settings()) == []
    lines = report_lines(SessionStats(n_requests=1), Settings())
    assert lines[0].startswith("requests = 1 (")
    assert not any(line.startswith("advice") for line in lines)


def test_llama_cpps_lines_on_times():
    assert timing_lines(RequestStats(n_prompt_evaluated=4, ms_prompt=2.0)) == [
        (
            "prompt eval time =       2.00 ms /     4 tokens "
            "(    0.50 ms per token,  2000.00 tokens per second)"
        ),
        (
            "       eval time =       0.00 ms /     0 tokens "
            "(    0.00 ms per token,     0.00 tokens per second)"
        ),
        "      total time =       2.00 ms /     4 tokens",
    ]


def test_a_completions_line():
    stats = dataclasses.replace(totals(), ms_queue=0.5, ms_tokenize=1.25, ms_total=5102.0)
    generated = GeneratedText(completion_id="c1", text="x")
    result = CompletionResult(generated=generated, stats=stats)
    assert request_line(result) == (
        "completion c1: stop, 400 tokens in 229 target passes (1.75 per pass), prompt 250/1000 "
        "evaluated, accepted 171/297 draft tokens (prompt-lookup 171/297), queue 0.5, tokenize "
        "1.2, prompt 100.0, draft 229.0, verify 4000.0, predict 5000.0, total 5102.0 ms"
    )


def test_what_idle_time_evaluated_stands_apart():
    assert not [
        line for line in report_lines(SessionStats(n_requests=1), Settings()) if "idle" in line
    ]
    lines = report_lines(SessionStats(n_requests=1, n_idle_evaluated=512), Settings())
    assert "idle time = 512 prompt tokens evaluated, beside the sums below" in lines


def test_what_the_model_was_spared_has_lines_of_its_own():
    stats = SessionStats(
        n_requests=9,
        n_memory=7,
        n_filtered=2,
        n_coalesced=3,
        n_prefetches=4,
        n_prefetches_used=1,
        prefetch=RequestStats(n_prompt_evaluated=50, n_predicted=60),
    )
    block = "\n".join(report_lines(stats, Settings()))
    assert "without the model = 7 from memory, 2 filtered; coalesced requests = 3" in block
    assert (
        "prefetches = 4 (1 used), 50 prompt tokens evaluated, 60 tokens predicted, "
        "beside the sums below" in block
    )
    assert "without the model" not in "\n".join(
        report_lines(SessionStats(n_requests=1), Settings())
    )


def test_a_completion_without_the_model_has_a_short_line():
    generated = GeneratedText(completion_id="7", text="abc")
    stats = RequestStats(ms_total=0.25)
    result = CompletionResult(generated=generated, stats=stats, source="memory")
    assert request_line(result) == "completion 7: by memory, 3 characters in 0.25 ms"
    generated = dataclasses.replace(generated, drafted=((0, 1), (2, 3)))
    drafted = structs.replace(result, generated=generated)
    assert request_line(drafted).endswith(" in 0.25 ms, characters from drafts: 0-1 2-3")
