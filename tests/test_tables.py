from igcf.tables import Table, as_latex, as_markdown, markdown_table, short_number

TABLE = Table("Hits & misses", ("method", "P@10"), (("my_way", "50 %"), ("chance", "1 ± 2")), best=frozenset({(0, 1)}))


def test_a_markdown_table_by_hand() -> None:
    assert markdown_table(("a", "b", "c"), [(1, "x", ""), (2, "y", 0.5)], align="lr") == (
        "| a | b | c |\n|---|--:|---|\n| 1 | x |  |\n| 2 | y | 0.5 |"
    )
    assert markdown_table(("a",), []) == "| a |\n|---|"


def test_the_best_cell_is_bold_in_markdown() -> None:
    assert as_markdown(TABLE) == (
        "**Hits & misses**\n\n| method | P@10 |\n|---|--:|\n| my_way | **50 %** |\n| chance | 1 ± 2 |\n"
    )


def test_latex_escapes_what_it_would_stumble_over() -> None:
    lines = as_latex(TABLE).splitlines()
    assert lines[0] == "% Hits & misses"  # a comment needs no escape
    assert lines[1] == r"\begin{tabular}{lr}"
    assert lines[5:7] == [r"my\_way & \textbf{50 \%} \\", r"chance & 1 $\pm$ 2 \\"]
    assert lines[-1] == r"\end{tabular}"


def test_numbers_keep_three_digits() -> None:
    assert [short_number(value) for value in (1234.5, 99.99, 0.012345)] == ["1,234", "100", "0.0123"]
