from dataclasses import replace

from igcf.lab.evaluate import evaluate
from igcf.lab.evaluate.overview import conclusion
from igcf.lab.evaluate.verdict import verdict
from tests.lab.evaluate.worlds import log, setup


def test_the_verdict_names_the_winner_its_lead_and_whether_it_is_chance() -> None:
    results = evaluate(log(), setup(), ("random", "pop", "pca-gp"))
    found = verdict(results)
    last = str(results.sessions[0].rounds)
    reached = {row.method: row.precision[last] for row in results.rows}
    first, second = sorted(reached, key=lambda name: -reached[name])[:2]
    assert (found.winner, found.runner_up) == (first, second)
    assert abs(found.difference - (reached[first] - reached[second])) < 1e-9
    assert found.sentence.startswith(f"{first} won: {reached[first]:.3g} satisfied items in {last} rounds")
    assert ("is more than chance" if found.p_value < 0.05 else "may be chance") in found.sentence


def test_nobody_wins_a_tie() -> None:
    found = replace(verdict(evaluate(log(), setup(), ("random", "pop"))), difference=0.0, p_value=1.0)
    assert found.sentence.startswith("pop and random are level: ")
    assert "won" not in found.sentence
    assert conclusion([found]) == "No method won: the two best are level in every experiment."
    lead = replace(found, difference=0.5)
    assert conclusion([found, lead]) == "pop won 1 of 2 experiments, 0 of these by more than chance."


def test_against_nobody_nothing_is_won() -> None:
    found = verdict(evaluate(log(), setup(), ("pop",)))
    assert found.runner_up is None
    assert "no other method to compare with" in found.sentence
