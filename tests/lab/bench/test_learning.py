import pytest

from igcf.config import GraphConfig
from igcf.lab.bench import report
from igcf.lab.bench.learning import learning_curve
from igcf.lab.bench.sizes import QUICK


@pytest.mark.slow
def test_the_time_is_that_of_the_first_look_that_is_good_enough() -> None:
    result = learning_curve("synthetic", GraphConfig(dim=4, epochs=6, validate_every=2, validate_rounds=10))
    assert [look["epoch"] for look in result["looks"]] == [2, 4, 6]
    assert result["final_precision"] == max(look["precision"] for look in result["looks"])
    assert result["reached"]["precision"] >= 0.99 * result["final_precision"]
    assert 0 < result["reached"]["seconds"] <= result["seconds_in_all"]


def test_without_a_dataset_nothing_is_trained() -> None:
    assert report.PARTS["learning"](QUICK) == {}
