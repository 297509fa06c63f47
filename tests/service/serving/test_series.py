"""What the dashboard says of the time so far is what happened."""

from pathlib import Path

from igcf.service.context import ServiceContext
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.recommending import recommend
from igcf.service.serving.statistics import statistics
from igcf.service.settings import ServiceSettings


def test_answers_that_show_something_in_order_to_learn_are_counted(model_folder: Path, tmp_path: Path) -> None:
    context = ServiceContext.open(model_folder, ServiceSettings(store=str(tmp_path / "store.db")))
    told = [
        recommend(context, f"user-{n}", RecommendationRequest(k=1, policy="ucb", nu=nu))
        for n, nu in enumerate((0, 3, 3))
    ]
    n_learning = sum(item.reason == "learn" for answer in told for item in answer.items)
    assert n_learning >= 1, "a wide interval is tried out"
    context.audit.flush()
    points = statistics(context).series.points
    assert sum(point.answers for point in points) == 3
    assert sum(point.learning for point in points) == n_learning
    context.close()
