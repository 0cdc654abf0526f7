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

from speclsp import request, seam
from speclsp.cancellation import CancellationToken
from speclsp.settings import Settings
from speclsp.settings_resolution import resolve

SEAM_CLASSES = [
    value
    for value in vars(request).values()
    if inspect.isclass(value) and dataclasses.is_dataclass(value)
]


@pytest.mark.parametrize("cls", SEAM_CLASSES, ids=lambda c: c.__name__)
def test_seam_data_is_frozen(cls):
    assert cls.__dataclass_params__.frozen


def full_stats() -> request.SessionStats:
    drafter = request.DrafterStats(n_drafts=2, n_drafted=7, n_accepted=3, n_drafted_at=(2, 2))
    return request.SessionStats(
        n_requests=3,
        totals=request.RequestStats(n_prompt=5, drafters={"prompt-lookup": drafter}),
        latency={"total": request.Percentiles(n=3, p50=1.5, p95=2.5, p99=2.5)},
        layers={"CPU": 5},
        state="ready",
    )


def test_statistics_survive_json():
    stats = full_stats()
    assert msgspec.json.decode(msgspec.json.encode(stats), type=request.SessionStats) == stats


@given(prefix=st.text(), suffix=st.text(), n_predict=st.none() | st.integers(1, 4096))
def test_requests_survive_json(prefix, suffix, n_predict):
    original = request.CompletionRequest(
        uri="untitled:1",
        version=3,
        offset=len(prefix),
        edit=request.TextEdit(0, len(prefix), suffix),
        above=(("untitled:2", 4),),
        settings={} if n_predict is None else {"n_predict": n_predict},
    )
    try:
        wire = msgspec.json.encode(original)
    except UnicodeEncodeError:
        return  # lone surrogates cannot be sent by any JSON client either
    assert msgspec.json.decode(wire, type=request.CompletionRequest) == original


def test_events_survive_json_by_their_type():
    events = [
        request.StateChanged(state="ready"),
        request.Progress(token="t", stage="report", percentage=5),
        request.LogLine(level="info", message="é🙂"),
        request.Problem(message="m", remedy="r"),
    ]
    for event in events:
        assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event


def test_nothing_but_plain_data_and_the_cancellation_token_crosses_the_seam():
    plain = {*SEAM_CLASSES, Settings, CancellationToken, str, int, float, bool, type(None), tuple}
    for name, method in inspect.getmembers(seam.Completer, inspect.isfunction):
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
