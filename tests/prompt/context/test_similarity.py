from speclsp.prompt.context.similarity import (
    WINDOW_LINES,
    NameTable,
    best_window,
    codes_of,
    names_in,
    windows,
)

CART = "def total_price(cart, voucher):\n    return cart.subtotal - voucher.discount\n"
STOCK = "def restock(warehouse, amount):\n    warehouse.amount += amount\n"


def table(*texts: str) -> NameTable:
    return NameTable([codes_of(names_in(text)) for text in texts])


def test_keywords_are_no_names_and_order_is_that_of_the_text() -> None:
    assert names_in("def total(self, price): return price * x1_rate") == [
        "total",
        "price",
        "x1_rate",
    ]


def test_the_file_that_shares_rare_names_comes_first() -> None:
    query = codes_of(names_in("voucher = find(); cart.subtotal"))
    found = table(STOCK, CART, STOCK + CART + STOCK * 3, "").best_files(query, 9)
    assert [file_idx for file_idx, _ in found] == [1, 2]
    assert table().best_files(query, 9) == []
    assert table(STOCK).best_files(codes_of([]), 9) == []


def test_the_best_window_of_a_file() -> None:
    filler = "".join(f"def filler_{n}(unrelated_{n}):\n    pass\n\n" for n in range(30))
    text = filler + CART + "\n" + filler
    names = table(text, STOCK)
    window = best_window(text.split("\n"), codes_of(names_in(CART)), names)
    assert window is not None
    assert CART.rstrip() in "\n".join(text.split("\n")[window.first_line : window.end_line])
    assert best_window(text.split("\n"), codes_of(names_in(STOCK)), names) is None


def test_windows_cover_a_text_and_start_behind_blank_lines() -> None:
    lines = ["x"] * 7 + [""] + ["y"] * 50
    found = windows(lines)
    assert found[0][0] == 8
    assert found[-1][1] == len(lines)
    assert all(end - first <= WINDOW_LINES + 6 for first, end in found)
    assert windows([""]) == []


def test_names_in_a_long_text_are_found_piece_by_piece() -> None:
    names = [f"name_{number:05}" for number in range(20_000)]
    found = names_in(" ".join(names) + " return")
    assert len(set(names) - set(found)) <= 4  # those where two pieces meet
    assert [name for name in found if name in set(names)] == sorted(set(names) & set(found))
    assert "return" not in found
