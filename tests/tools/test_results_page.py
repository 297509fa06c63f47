"""The page of results is filled from the page of all tables."""

from pathlib import Path

from tools.results_page import NOT_RUN, PAGES, filled

DOCS = Path(__file__).parents[2] / "docs"
TABLES = """# All tables

Made by `python -m tools.published`.

## cold-start-ml-1m

`igcf evaluate --dataset ml-1m` at commit 0123abc

**ml-1m, cold-start**

| method | P@10 | P@120 |
|---|--:|--:|
| pop | 7.100 | 64.000 |
| igcf | **8.000** | **82.000** |

**the same with slates**

| method | nDCG3@10 | P@10 |
|---|--:|--:|
| pop | 6.000 | 20.000 |
| igcf | 7.000 | 23.000 |

**Paired comparisons**

| method | against | metric | difference | effect | p | p corrected |
|---|--:|--:|--:|--:|--:|--:|
| pop | icf-ucb | precision@120 | +1.000 | +0.9 | 0.001 | 0.002 * |
| igcf | pop | precision@10 | +0.900 | +0.2 | 0.06 | 0.2 |
| igcf | pop | precision@120 | +18.000 | +0.9 | 1e-9 | 1e-8 * |

## new-items-kuairec

| method | reactions | all |
|---|--:|--:|
| igcf | 5 | 30.000 |
| igcf | 20 | 31.000 |
"""


def test_a_marked_table_has_the_columns_it_names_the_papers_figures_and_a_star_where_ours_is_better() -> None:
    page = "before\n<!-- table cold-start-ml-1m: P@10, P@120, nDCG3@10 -->\nold\n<!-- end -->\nafter\n"
    assert filled(page, TABLES).splitlines() == [
        "before",
        "<!-- table cold-start-ml-1m: P@10, P@120, nDCG3@10 -->",
        "| method | P@10 | P@120 | nDCG3@10 |",
        "|---|--:|--:|--:|",
        "| pop | 7.100 (7.2) | 64.000 (64.16) | 6.000 |",
        "| igcf | 8.000 | 82.000* | 7.000 |",
        "<!-- end -->",
        "after",
    ]


def test_without_columns_the_first_table_is_taken_whole() -> None:
    page = filled("<!-- table new-items-kuairec -->\n<!-- end -->\n", TABLES)
    assert "| igcf | 5 | 30.000 |\n| igcf | 20 | 31.000 |\n<!-- end -->" in page


def test_an_experiment_that_was_not_run_keeps_no_old_figures() -> None:
    page = "<!-- table top-k-ml-1m: nDCG3@20 -->\n| method |\n|---|\n| old |\n<!-- end -->\n"
    assert filled(page, TABLES) == f"<!-- table top-k-ml-1m: nDCG3@20 -->\n{NOT_RUN}\n<!-- end -->\n"


def test_the_pages_of_results_say_what_the_page_of_all_tables_says() -> None:
    tables, texts = (DOCS / "results-tables.md").read_text(encoding="utf-8"), [page.read_text() for page in PAGES]
    assert [filled(text, tables) for text in texts] == texts
    assert sum(text.count("<!-- table ") for text in texts) > 20
