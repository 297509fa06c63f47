import json
from pathlib import Path

import pytest

from igcf.errors import ConfigError
from igcf.lab.evaluate import evaluate
from tests.lab.evaluate.worlds import log, setup
from tools.sensitivity import sensitivity


def test_one_setting_at_a_time_is_played_with_validation_users(tmp_path: Path) -> None:
    study = sensitivity(log(), setup(), ["pca-gp"], ["dim", "nu"], settings={"pca-gp": {"dim": 3}})
    points = study.points
    assert [point["value"] for point in points if point["setting"] == "dim"] == [3, 16, 32, 64, 128]
    assert [point["value"] for point in points if point["is_chosen"]] == [3, 0.0]
    tuned = evaluate(log(), setup(), ["pca-gp"], settings={"pca-gp": {"dim": 3}}, grid="quick").tuning[0]["tried"]
    scores = {(each["settings"]["dim"], each["settings"]["noise_var"]): each["score"] for each in tuned}
    (own,) = (point for point in points if point["setting"] == "dim" and point["is_chosen"])
    assert list(own["figures"].values())[-1] == pytest.approx(scores[3, 0.09])
    first = study.tables[0]
    assert first.rows[0][0] == "pca-gp, dim = 3 (chosen)"
    assert set(study.charts) == {"dim", "nu"}
    study.write(tmp_path / "study", "sensitivity")
    assert "<svg" in (tmp_path / "study" / "sensitivity.html").read_text()
    assert (tmp_path / "study" / "sensitivity.svg").read_text().startswith("<svg")
    assert len(json.loads((tmp_path / "study" / "sensitivity.json").read_text())) == len(points)


def test_a_setting_without_a_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="pop has no setting dim"):
        sensitivity(log(), setup(), ["pop"], ["dim"])
    with pytest.raises(ConfigError, match="expected a number with known values, got optimiser"):
        sensitivity(log(), setup(), ["igcf-paper"], ["optimiser"])
