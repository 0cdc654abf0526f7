from speclsp.prompt.context.similarity import NameTable, best_window, codes_of, names_in

CART = "def total_price(cart, voucher):\n    return cart.subtotal - voucher.discount\n"
STOCK = "def restock(warehouse, amount):\n    warehouse.amount += amount\n"


def table(*texts: str) -> NameTable:
    return NameTable({str(n): codes_of(names_in(text)) for n, text in enumerate(texts)})


def test_names_come_in_the_order_of_the_text():
    assert names_in("total(price): 12 * x1_rate, total") == ["total", "price", "x1_rate"]


def test_long_texts_are_searched_in_pieces():
    """While an expression searches, no other thread runs."""
    names = [f"name_{n}" for n in range(20_000)]
    assert set(names[-100:]) <= set(names_in(" ".join(names)))
    assert max(map(len, names_in("x" * 200_000))) <= 65_536


def test_the_file_that_shares_rare_names_comes_first():
    query = codes_of(names_in("voucher = find(); cart.subtotal"))
    assert table(STOCK, CART, STOCK + CART, "").best_files(query, 9) == ["1", "2"]
    assert table().best_files(query, 9) == []
    assert table(STOCK).best_files(codes_of([]), 9) == []


def test_the_best_window_of_a_file():
    filler = "".join(f"def filler_{n}(unrelated_{n}):\n    pass\n\n" for n in range(30))
    text = filler + CART + "\n" + filler
    names = table(text, STOCK)
    window = best_window(text.split("\n"), codes_of(names_in(CART)), names)
    assert window is not None
    assert CART.rstrip() in "\n".join(text.split("\n")[window.first_line : window.end_line])
    assert best_window(text.split("\n"), codes_of(names_in(STOCK)), names) is None


def test_every_line_of_a_file_is_in_a_window():
    for n_lines in (1, 11, 12, 13, 24, 25, 61):
        for line in (0, n_lines // 2, n_lines - 1):
            lines = ["x = 1"] * n_lines
            lines[line] = CART
            found = best_window(lines, codes_of(names_in(CART)), table(CART, STOCK))
            assert found is not None
            assert found.first_line <= line < found.end_line
