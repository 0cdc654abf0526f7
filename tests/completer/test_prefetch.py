from __future__ import annotations

from typed_requests import request_at

from speclsp.completer.prefetch import N_AGREED, N_LATEST, N_RESTED, Prefetches


def test_the_request_is_the_one_after_the_suggestion_is_taken() -> None:
    after = Prefetches().request_after(
        request_at("f(¦)\nx", trigger="invoked", n_candidates=3, n_predict=9), "a)\nb", 1, n_said=0
    )
    assert after == request_at("f(a)\nb¦\nx", n_predict=9)


def test_a_place_is_prefetched_once_while_it_stays_the_same() -> None:
    prefetches = Prefetches()
    assert prefetches.request_after(request_at("¦"), "abc", 0, n_said=0) is not None
    assert prefetches.request_after(request_at("ab¦"), "c", 0, n_said=0) is None
    assert prefetches.request_after(request_at("ab¦"), "d", 0, n_said=0) is not None
    assert prefetches.request_after(request_at("¦"), "abc", 0, n_said=0) is not None
    prefetches.forget()
    assert prefetches.request_after(request_at("ab¦"), "c", 0, n_said=0) is not None


def n_prefetched(prefetches: Prefetches, n_shown: int, *, n_said: int = 0) -> int:
    return sum(
        prefetches.request_after(request_at(f"{n}¦"), "abc", 0, n_said=n_said) is not None
        for n in range(n_shown)
    )


def test_where_it_is_seldom_used_it_rests_and_tries_again() -> None:
    prefetches = Prefetches()
    for n in range(2 * N_LATEST):
        prefetches.made(str(n))
    assert n_prefetched(prefetches, 5 * N_RESTED) == 5
    for n in range(N_LATEST, N_LATEST + 4):
        assert prefetches.used(str(n))
        assert not prefetches.used(str(n))
    assert n_prefetched(prefetches, 10) == 10


def test_at_rest_what_is_being_typed_as_suggested_is_looked_beyond_all_the_same() -> None:
    prefetches = Prefetches()
    for n in range(2 * N_LATEST):
        prefetches.made(str(n))
    assert n_prefetched(prefetches, N_RESTED, n_said=N_AGREED - 1) == 1
    assert n_prefetched(prefetches, N_RESTED, n_said=N_AGREED) >= N_RESTED - 1
