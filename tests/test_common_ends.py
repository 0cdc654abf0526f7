import hypothesis.strategies as st
from hypothesis import given

from speclsp.common_ends import common_head, common_tail


@given(
    left=st.lists(st.integers(0, 2), max_size=6),
    right=st.lists(st.integers(0, 2), max_size=6),
    n_shared=st.sampled_from([0, 1, 255, 256, 257, 600]),
    n_max=st.integers(0, 700),
)
def test_common_ends(left, right, n_shared, n_max):
    shared = [7] * n_shared
    expected = n_shared
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        expected += 1
    assert common_head(tuple(shared + left), shared + right) == expected
    old, new = [*reversed(left), *shared], [*reversed(right), *shared]
    assert common_tail(old, new) == expected
    assert common_tail(old, new, n_max) == min(expected, n_max)
    assert common_head(old[::-1], new[::-1], n_max) == min(expected, n_max)
    assert common_tail(bytes(old).decode(), bytes(new).decode()) == expected
