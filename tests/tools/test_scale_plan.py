from pathlib import Path

from tools.scale_plan import as_markdown, costs, plan

SCALE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_plan_in_the_documentation_is_what_the_unit_costs_give() -> None:
    assert as_markdown() in SCALE.read_text(encoding="utf-8")


def test_every_part_of_the_plan_has_its_numbers() -> None:
    parts = dict(plan())
    assert list(parts) == ["Serving", "Store", "Network", "Training"]
    assert "4.4 TB" in next(line.result for line in parts["Store"] if line.what == "reactions")


def test_every_unit_cost_is_a_positive_number_whose_command_is_on_the_page() -> None:
    page = SCALE.read_text(encoding="utf-8")
    for cost in costs().values():
        assert cost.keys() == {"name", "value", "unit", "source"}
        assert cost["value"] > 0
        assert cost["source"].startswith("[") or f"# {cost['source'].strip('`')}\n" in page
