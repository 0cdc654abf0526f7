"""What crosses the completer seam is plain data: frozen, and the same after JSON."""

import dataclasses
import inspect
import types
import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed_requests import request_between

from speclsp.seam import completer, completion, documents, edit, events, request, statistics, text
from speclsp.seam.cancellation import CancellationToken
from speclsp.settings import Settings
from speclsp.settings_resolution import resolve

SEAM_CLASSES = [
    value
    for module in (request, completion, edit, text, documents, events, statistics)
    for value in vars(module).values()
    if inspect.isclass(value)
    and (dataclasses.is_dataclass(value) or issubclass(value, msgspec.Struct))
    and value.__module__ == module.__name__
]


@pytest.mark.parametrize("cls", SEAM_CLASSES, ids=lambda c: c.__name__)
def test_seam_data_is_frozen(cls):
    params = getattr(cls, "__dataclass_params__", None) or cls.__struct_config__
    assert params.frozen


def full_stats() -> statistics.SessionStats:
    drafter = statistics.DrafterStats(n_drafts=2, n_drafted=7, n_accepted=3, n_drafted_at=(2, 2))
    return statistics.SessionStats(
        n_requests=3,
        totals=statistics.RequestStats(n_prompt=5, drafters={"prompt-lookup": drafter}),
        latency={"total": statistics.Percentiles(n=3, p50=1.5, p95=2.5, p99=2.5)},
        layers={"CPU": 5},
        state="ready",
    )


def test_statistics_survive_json():
    stats = full_stats()
    assert msgspec.json.decode(msgspec.json.encode(stats), type=statistics.SessionStats) == stats


@given(prefix=st.text(), suffix=st.text(), n_predict=st.none() | st.integers(1, 4096))
def test_requests_survive_json(prefix, suffix, n_predict):
    original = completion.CompletionRequest(
        uri="untitled:1",
        version=3,
        offset=len(prefix),
        edit=documents.TextEdit(0, len(prefix), suffix),
        above=(("untitled:2", 4),),
        settings={} if n_predict is None else {"n_predict": n_predict},
    )
    try:
        wire = msgspec.json.encode(original)
    except UnicodeEncodeError:
        return  # lone surrogates cannot be sent by any JSON client either
    assert msgspec.json.decode(wire, type=completion.CompletionRequest) == original


def test_events_survive_json_by_their_type():
    told = [
        events.StateChanged(state="ready"),
        events.Progress(token="t", stage="report", percentage=5),
        events.LogLine(level="info", message="é🙂"),
        events.Problem(message="m", remedy="r"),
    ]
    for event in told:
        assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event


def test_nothing_but_plain_data_and_the_cancellation_token_crosses_the_seam():
    plain = {*SEAM_CLASSES, Settings, CancellationToken, str, int, float, bool, type(None), tuple}
    plain |= {documents.Range, ...}
    for name, method in inspect.getmembers(completer.Completer, inspect.isfunction):
        if name.startswith("_"):
            continue
        hints = typing.get_type_hints(method)
        returned = hints.pop("return", None)
        for hint in hints.values():
            parts = {typing.get_origin(hint) or hint, *typing.get_args(hint)} - {request.R}
            assert parts <= {*plain, request.Request, types.UnionType}, (name, hint)
        assert "Callable" not in str(returned), name


def test_settings_are_resolved_once_for_requests_that_agree(monkeypatch):
    calls = []

    def counted(layers, base):
        calls.append(layers)
        return resolve(layers, base=base)

    monkeypatch.setattr(request, "resolve", counted)
    base = Settings()
    own = {"n_predict": 3, "lookup": "\ud800"}
    first, second = (request_between("x", settings=dict(own)) for _ in range(2))
    assert first.settings_over(base) is second.settings_over(base)
    assert len(calls) == 1
    assert request_between("x", settings={"n_predict": 4}).settings_over(base).n_predict == 4
    assert first.settings_over(dataclasses.replace(base, max_lines=7)).max_lines == 7
    assert len(calls) == 3


def test_a_wrong_setting_of_a_request_does_not_stand_for_a_right_one_that_is_equal():
    base = Settings()
    wrong, right = (request_between("x", settings={"n_predict": n}) for n in (True, 1))
    assert wrong.settings_over(base).n_predict == base.n_predict
    assert right.settings_over(base).n_predict == 1
    assert wrong.settings_over(base).n_predict == base.n_predict


def test_an_edit_has_four_times_the_time_of_a_suggestion():
    """copilot-lsp and sidekick.nvim ask once after a change: what ends too early never comes."""
    longest = 2**31 - 1
    for base, own, suggestions, edits in (
        (Settings(deadline_ms=500), {}, 500, 2000),
        (Settings(), {"deadline_ms": 100}, 100, 400),
        (Settings(), {"deadline_ms": longest}, longest, longest),
    ):
        cursor = {"uri": "u:a", "version": 1, "offset": 0, "settings": own}
        for kind, wanted in (
            (completion.CompletionRequest, suggestions),
            (edit.EditRequest, edits),
        ):
            assert kind(**cursor).settings_over(base, "python").deadline_ms == wanted
