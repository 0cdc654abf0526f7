from __future__ import annotations

import dataclasses

from typed_requests import request_at, result_of

from speclsp.completer.given import MAX_GIVEN, MAX_WHOLE, GivenSuggestions
from speclsp.request import Alternative
from speclsp.suggestions.answers import answers_of, rest_of
from speclsp.suggestions.place import N_CHARS


def test_a_rest_is_learned_as_what_it_is_the_rest_of() -> None:
    (answer,) = answers_of(request_at("¦"), result_of("abcdef"), now=0)
    rest = rest_of(answer, request_at("ab¦"))
    assert rest is not None
    given = GivenSuggestions()
    result = result_of(rest.text, completion_id="second")
    given.add(request_at("ab¦"), result, rest)
    found = given.get("second")
    assert found is not None
    assert (found.text, found.said_before, found.learned_id) == ("cdef", "ab", "first")
    assert (found.request.prefix, found.learned_request.prefix) == ("ab", "")


def test_alternatives_have_ids_of_their_own() -> None:
    given = GivenSuggestions()
    other = Alternative(completion_id="other", text="xyz", n_replaced=2, mean_logprob=None)
    given.add(request_at("¦"), result_of("abc", alternatives=(other,)), None)
    found = given.get("other")
    assert found is not None
    assert (found.text, found.n_replaced, found.learned_id) == ("xyz", 2, "other")


def test_memory_is_bounded() -> None:
    given = GivenSuggestions()
    long = "x" * 3 * N_CHARS
    for n in range(MAX_GIVEN + 1):
        given.add(request_at(f"{long}¦{long}"), result_of("a", completion_id=str(n)), None)
    assert given.get("0") is None
    kept = [given.get(str(n)) for n in range(1, MAX_GIVEN + 1)]
    assert [k is not None and k.is_whole for k in kept].count(True) == MAX_WHOLE
    assert kept[0] is not None
    assert len(kept[0].request.prefix) == len(kept[0].learned_request.suffix) == N_CHARS
    assert kept[-1] is not None
    assert kept[-1].is_whole


def test_a_closed_document_s_whole_texts_are_let_go_of() -> None:
    given = GivenSuggestions()
    long = "x" * 3 * N_CHARS
    for uri in ("file:///a", "file:///b"):
        request = dataclasses.replace(request_at(f"{long}¦{long}"), uri=uri)
        given.add(request, result_of("a", completion_id=uri), None)
    given.forget_whole("file:///a")
    closed, still_open = given.get("file:///a"), given.get("file:///b")
    assert closed is not None
    assert still_open is not None
    assert (closed.text, closed.is_whole, len(closed.request.prefix)) == ("a", False, N_CHARS)
    assert len(closed.learned_request.suffix) == N_CHARS
    assert (still_open.is_whole, len(still_open.request.prefix)) == (True, len(long))
