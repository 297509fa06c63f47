from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import igcf

HARM = "<script>alert(1)</script><img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        assert attrs == []


def objects() -> dict[str, Any]:
    ids = [f"{HARM} {n}" for n in range(4)]
    model = igcf.Model(
        item_ids=ids, item_vectors=np.eye(4), prior_mean=np.zeros(4), prior_cov=np.eye(4), noise_var=0.1,
        metadata={"data": {"name": HARM, "users": 3}},
    )  # fmt: skip
    session = igcf.Recommender(model).session()
    session.observe(ids[0], 1.0)
    session.observe(ids[1], None)
    return {
        "log": igcf.Interactions.from_arrays([HARM] * 4, ids, [1.0, 2.0, 3.0, 4.0]),
        "model": model,
        "session": session,
        "recommendations": session.recommend(2),
        "explanation": session.explain(ids[2]),
    }


@pytest.mark.parametrize(("name", "told"), {
    "log": "4 reactions, 1 users, 4 items", "model": "dimensions", "session": "2 reactions",
    "recommendations": "2 recommendations", "explanation": "what people think of it",
}.items())  # fmt: skip
def test_notebooks_show_a_small_table_in_which_nothing_can_run(name: str, told: str) -> None:
    shown = objects()[name]._repr_html_()
    assert told in shown
    assert "&lt;script&gt;" in shown
    tags = Tags()
    tags.feed(shown)
    assert tags.names <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert len(shown) < 5000


def test_a_list_of_recommendations_is_still_a_list() -> None:
    found = objects()["recommendations"]
    assert isinstance(found, list)
    assert found == list(found)


def test_long_histories_are_cut_and_say_so() -> None:
    model = igcf.Model(
        item_ids=[str(n) for n in range(60)],
        item_vectors=np.ones((60, 1)),
        prior_mean=[0.0],
        prior_cov=[[1.0]],
        noise_var=1.0,
    )
    session = igcf.Recommender(model).session()
    for n in range(50):
        session.observe(str(n), 1.0)
    assert "and 30 more" in session._repr_html_()
