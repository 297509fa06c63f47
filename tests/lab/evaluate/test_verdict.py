from igcf.lab.evaluate import evaluate
from igcf.lab.evaluate.tables import results_tables, verdict
from tests.lab.evaluate.worlds import log, setup


def test_the_verdict_names_the_winner_its_lead_and_whether_it_is_chance() -> None:
    results = evaluate(log(), setup(n_users=40), ("random", "pca-gp"))
    found = verdict(results)
    last = str(results.sessions[0].rounds)
    reached = {row.method: row.figures["precision"][last] for row in results.rows}
    first, second = sorted(reached, key=lambda name: -reached[name])[:2]
    assert (found.best, found.runner_up) == (first, second)
    assert abs(found.difference - (reached[first] - reached[second])) < 1e-9
    assert found.sentence.startswith(f"{first} won: {reached[first]:.3g} satisfied items in {last} rounds")
    assert found.winner == first


def test_a_difference_within_chance_is_a_tie_with_the_same_p_everywhere() -> None:
    results = evaluate(log(), setup(), ("pop", "pop-satisfied"))
    found = verdict(results)
    (test,) = results.comparisons
    assert found.p_value == test.p_value >= 0.05
    assert test.is_tie
    assert results.as_dict()["comparisons"][0]["tie"] is True
    assert found.as_dict()["winner"] is None
    assert found.as_dict()["tie"] is True
    assert f"{found.best} and {found.runner_up} tie: " in found.sentence
    assert "won" not in found.sentence
    assert results_tables(results)[1].rows[0][-1] == f"{test.p_value:.2g} tie"


def test_against_nobody_nothing_is_won() -> None:
    found = verdict(evaluate(log(), setup(), ("pop",)))
    assert found.winner is None
    assert "no other method to compare with" in found.sentence
