from io import StringIO

from rich.console import Console

from igcf.tables import Table, as_latex, as_markdown, fitted, markdown_table, print_fitted, short_number

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


def test_a_table_wider_than_the_terminal_is_divided_and_no_cell_shortened() -> None:
    header = ("method", *(f"P@{t}" for t in range(10, 22)))
    rows = tuple((f"method-{row}", *(f"{row + t:.4f} ± 0.1234" for t in range(12))) for row in range(10))
    table = Table("wide", header, rows, frozenset({(3, 1), (4, 12)}))
    parts = fitted(table, 80)
    assert [part.title for part in parts] == ["wide", *[""] * (len(parts) - 1)]
    assert [name for part in parts for name in part.header[1:]] == list(header[1:])
    assert all(row[0] == f"method-{number}" for part in parts for number, row in enumerate(part.rows))
    assert (3, 1) in parts[0].best
    assert sum(len(part.best) for part in parts) == 2
    console = Console(width=80, file=StringIO(), force_terminal=False)
    print_fitted(table, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, printed.splitlines())) <= 80
    assert all(cell in printed for row in rows for cell in row)


def test_the_columns_that_tell_what_a_row_is_about_are_repeated() -> None:
    table = Table("", ("method", "against", "p", "q"), (("a", "b", "0.1", "0.2"),), n_keys=2)
    assert [part.header for part in fitted(table, 25)] == [("method", "against", "p"), ("method", "against", "q")]
