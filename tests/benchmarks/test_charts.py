"""Charts of the benchmarks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from benchmarks.charts import BarChart, svg


def test_a_chart_holds_its_texts_and_values() -> None:
    chart = BarChart("a < b", ["one", "two & three"], [("x", [1.0, 2.0]), ("y", [0.0, 3.0])])
    drawn = svg([chart, chart], ["a remark"])
    texts = [element.text for element in ET.fromstring(drawn).iter() if element.text]
    wanted = {"a < b", "one", "two & three", "x", "y", "1.00", "2.00", "0.00", "3.00", "a remark"}
    assert wanted <= set(texts)
    assert texts.count("a < b") == 2


def test_the_same_figures_give_the_same_file() -> None:
    chart = BarChart("title", ["one"], [("x", [1.0])])
    assert svg([chart]) == svg([chart])
    assert ET.fromstring(svg([])).tag.endswith("svg")
