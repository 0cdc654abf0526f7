"""Tables as Markdown."""

from benchmarks.tables import Table


def test_a_table_is_markdown():
    table = Table("Title", ("side", "p50"), caption="caption")
    table.add("a|b", "1.0")
    table.add("longer name", "100.0")
    assert str(table).splitlines() == [
        "Title",
        "",
        "| side        |   p50 |",
        "| ----------- | ----: |",
        "| a\\|b        |   1.0 |",
        "| longer name | 100.0 |",
        "",
        "caption",
    ]
