import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from igcf.charts import LINE, Bar, Line, apart, bar_chart, line_chart, standalone, ticks
from igcf.tables import with_margin


def drawings(chart: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(f"<p>{chart}</p>"))


def test_a_chart_comes_wide_and_narrow_and_is_told_in_words() -> None:
    chart = bar_chart([Bar("ours", 3.0, "3.0", "first"), Bar("<theirs>", 1.5, "1.5")], "Hits")
    for drawing in drawings(chart):
        assert drawing.get("aria-label") == "Hits: ours 3.0; <theirs> 1.5"
        ours, theirs = (float(rect.get("width", 0)) for rect in drawing.iter("rect"))
        assert ours == pytest.approx(2 * theirs, abs=0.2)
    assert [drawing.get("class") for drawing in drawings(chart)] == ["chart wide", "chart narrow"]


def test_no_bar_text_or_label_leaves_the_drawing() -> None:
    bars = [Bar("a job of many words " * 6, 5.0, "5.00 ± 0.21", low=4.0, high=6.0), Bar("b", 0.0, "0")]
    for drawing in drawings(bar_chart(bars, "Times")):
        width = float((drawing.get("viewBox") or "").split()[2])
        for text in drawing.iter("text"):
            assert float(text.get("x", 0)) + 6.5 * len(text.text or "") <= width + 1


def test_lines_are_named_at_their_ends_and_names_never_overlap() -> None:
    lines = [Line(f"method {n}", [1, 2, 3], [1.0, 2.0, 3.0 + n / 100], low=[0, 1, 2], high=[2, 3, 4]) for n in range(9)]
    for drawing in drawings(line_chart(lines, "Hits", "round")):
        named = [text for text in drawing.iter("text") if "value" in (text.get("class") or "")]
        assert {text.text for text in named} == {f"method {n}" for n in range(9)}
        heights = sorted(float(text.get("y", 0)) for text in named)
        assert all(below - above >= LINE - 0.2 for above, below in pairwise(heights))
        assert heights[-1] <= float((drawing.get("viewBox") or "").split()[3])


def test_places_of_a_line_chart_have_names_instead_of_numbers() -> None:
    for drawing in drawings(
        line_chart([Line("ours", [1, 2, 3], [1.0, 2.0, 1.5])], "Hits", "gamma", places=("0.1", "1", "10"))
    ):
        at = {text.text: float(text.get("x", 0)) for text in drawing.iter("text") if text.text in ("0.1", "10")}
        marked = [
            float(number)
            for number in re.findall(r"[ML]([\d.]+) ", next(drawing.iterfind("path[@class='line other']")).get("d", ""))
        ]
        assert list(at.values()) == pytest.approx([marked[0], marked[-1]])


def test_colours_come_from_the_page_alone() -> None:
    assert not re.search(r"#[0-9a-f]{3,6}|style=|fill=|stroke=", bar_chart([Bar("a", 1.0, "1")], "x"))


def test_ticks_are_round_and_labels_keep_their_order() -> None:
    assert ticks(23.7) == [0, 5, 10, 15, 20]
    assert ticks(0.61, 3) == [0, 0.25, 0.5]
    assert ticks(0.0) == [0.0]
    assert apart([5.0, 4.0, 50.0], 10, 50) == [14.0, 4.0, 50.0]
    assert apart([49.0, 50.0], 10, 50) == [40.0, 50.0]


def test_a_number_has_as_many_digits_as_its_margin_allows() -> None:
    assert with_margin(17.0321, 1.4321) == "17.0 ± 1.4"
    assert with_margin(0.31234, 0.0123) == "0.312 ± 0.012"
    assert with_margin(3.0, 0.0) == "3.00 ± 0.00"


def test_marked_points_are_circles_and_guides_are_dashed_lines_of_their_own() -> None:
    lines = [
        Line("measured", [1, 10], [2.0, 3.0], "first", has_points=True),
        Line("a bound of many words", [1, 10], [5.0, 9.0], "guide"),
    ]
    for drawing in drawings(line_chart(lines, "Error", "users", "error")):
        assert len(list(drawing.iter("circle"))) == 2
        assert [each.get("class") for each in drawing.iter("path")].count("guide") == 1
        width = float((drawing.get("viewBox") or "").split()[2])
        for text in drawing.iter("text"):
            if "value" in (text.get("class") or ""):
                assert float(text.get("x", 0)) + 6.5 * len(text.text or "") <= width + 1
        assert {"error", "users"} <= {text.text for text in drawing.iter("text")}


def test_charts_in_a_file_of_their_own_bring_their_style_and_all_of_their_texts() -> None:
    chart = bar_chart([Bar("<ours>", 3.0, "3.0", "first")], "Hits")
    for named in ({"": chart}, {"one": chart, "two & three": chart, "four": chart}):
        drawn = ElementTree.fromstring(standalone("Hits & misses", named))
        texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert texts.count("<ours>") == len(named)
        assert {name for name in named if name} <= set(texts)
        assert "light-dark(" in standalone("x", named)
