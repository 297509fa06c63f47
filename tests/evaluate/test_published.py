import pytest

from igcf.baselines import METHODS
from igcf.data import dataset_info
from igcf.evaluate.published import PUBLISHED, Experiment, minutes_left, tables_page
from igcf.tables import Table


def test_every_published_experiment_has_a_name_of_its_own_and_known_parts() -> None:
    assert len({each.name for each in PUBLISHED}) == len(PUBLISHED)
    for each in PUBLISHED:
        assert dataset_info(each.dataset).name == each.dataset
        assert set(each.methods) <= set(METHODS)


def test_the_time_left_follows_the_speed_of_this_machine() -> None:
    done, todo = PUBLISHED[:2], PUBLISHED[2:4]
    listed = sum(each.minutes for each in todo)
    assert minutes_left(todo, (), 0.0) == listed
    assert minutes_left(todo, done, 2 * sum(each.minutes for each in done)) == pytest.approx(2 * listed)


def test_the_page_names_the_commit_and_what_was_not_run() -> None:
    experiment = Experiment("cold-start", "ml-1m", ("pop",), 1)
    table = Table(title="one", header=("method", "P@10"), rows=(("pop", "7.20"),))
    page = tables_page([(experiment, "igcf evaluate", [table])], commit="abc", minutes=3)
    assert "After this page" in page
    assert "at commit abc, in 3 minutes" in page
    assert "| pop | 7.20 |" in page
    assert "Not run at this commit" in page
    assert "cold-start-kuairec" in page
