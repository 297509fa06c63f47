from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from igcf.config import GraphConfig
from igcf.errors import TrainingDivergedError
from igcf.training import Progress
from igcf.training.checkpoint import Checkpoint
from igcf.training.variational.objective import Parameters, initial_parameters
from igcf.training.variational.train import Trainer, fit, learning_rate, make_optimiser
from tests.training.worlds import small_world

SMALL = GraphConfig(dim=4, epochs=8, validate_every=2)
BATCHES = GraphConfig(dim=4, epochs=4, missing="ignore", batch_size=7, optimiser="sgd", validate_every=1)


def start(config: GraphConfig) -> Parameters:
    return initial_parameters(21, config)


def test_step_ignores_gradients_left_from_before() -> None:
    training_pairs = small_world(SMALL).training_pairs
    clean, dirty = (Trainer(training_pairs, replace(SMALL, optimiser="sgd")) for _ in range(2))
    for tensor in dirty.parameters.tensors():
        tensor.grad = torch.full_like(tensor, 1e3)
    for trainer in (clean, dirty):
        trainer.step(training_pairs.all_pairs, 0)
    torch.testing.assert_close(clean.parameters.tensors(), dirty.parameters.tensors())


@pytest.mark.parametrize(
    "settings",
    [
        {"missing": "zero"},
        {"missing": "ignore"},
        {"missing": "zero", "feedback": "binary"},
        {"missing": "ignore", "feedback": "binary"},
        {"missing": "ignore", "batch_size": 11},
        {"missing": "ignore", "optimiser": "sgd", "learning_rate": 0.3, "noise_std": 0.5},
    ],
)
def test_training_lowers_the_loss(settings: dict[str, Any]) -> None:
    config = replace(SMALL, epochs=60, **settings)
    history = fit(small_world(config).training_pairs, config).state.history
    assert float(history[-1]["loss"] or 0) < 0.95 * float(history[0]["loss"] or 0)


def test_batches_carry_their_share_of_the_kl() -> None:
    """Per pair, a batch and the whole log have the same KL term: KL / |S|."""
    training_pairs = small_world(BATCHES).training_pairs
    trainer = Trainer(training_pairs, BATCHES)
    kls = [trainer.elbo_terms(batch, 0)[1].item() for batch in training_pairs.batches(BATCHES, 0)]
    assert len(kls) > 3
    assert kls == [kls[0]] * len(kls)


def test_batches_cover_every_pair_once_and_change_with_the_epoch() -> None:
    training_pairs = small_world(BATCHES).training_pairs
    epochs = [
        [set(zip(b.users.tolist(), b.items.tolist(), strict=True)) for b in training_pairs.batches(BATCHES, e)]
        for e in (0, 1)
    ]
    everything = set(zip(training_pairs.user_idx.tolist(), training_pairs.item_idx.tolist(), strict=True))
    assert set.union(*epochs[0]) == everything
    assert sum(len(batch) for batch in epochs[0]) == len(everything)
    assert epochs[0] != epochs[1]


def test_batches_follow_the_log_without_shuffling() -> None:
    config = replace(BATCHES, shuffle=False)
    training_pairs = small_world(config).training_pairs
    first = next(training_pairs.batches(config, 3))
    assert set(zip(first.users, first.items, strict=True)) == set(
        zip(training_pairs.user_idx[:7], training_pairs.item_idx[:7], strict=True)
    )


def test_same_seed_gives_the_same_parameters_and_another_seed_does_not() -> None:
    training_pairs = small_world(SMALL).training_pairs
    one, two = (fit(training_pairs, SMALL).trainer.best for _ in range(2))
    other = fit(training_pairs, replace(SMALL, seed=1)).trainer.best
    assert torch.equal(one.mean, two.mean)
    assert torch.equal(one.rho, two.rho)
    assert not torch.equal(one.mean, other.mean)


class InterruptedRunError(Exception):
    """Stands for a crash."""


@pytest.mark.parametrize("config", [SMALL, BATCHES], ids=["adam", "sgd batches"])
def test_resumed_training_equals_uninterrupted_training(config: GraphConfig, tmp_path: Path) -> None:
    training_pairs = small_world(config).training_pairs
    checkpoint = Checkpoint(tmp_path / "run")

    def score(trainer: Trainer) -> float:
        return trainer.parameters.mean[0, 0].item()

    def crash(progress: Progress) -> None:
        if progress.epoch == 3:
            raise InterruptedRunError

    whole = fit(training_pairs, config, score=score)
    with pytest.raises(InterruptedRunError):
        fit(training_pairs, config, score=score, checkpoint=checkpoint, progress=crash)
    resumed = fit(training_pairs, config, score=score, checkpoint=checkpoint)
    assert torch.equal(resumed.trainer.best.mean, whole.trainer.best.mean)
    assert torch.equal(resumed.trainer.best.rho, whole.trainer.best.rho)
    assert resumed.state.history == whole.state.history
    assert resumed.state.best_epoch == whole.state.best_epoch


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    training_pairs, checkpoint = small_world(SMALL).training_pairs, Checkpoint(tmp_path)
    first = fit(training_pairs, SMALL, checkpoint=checkpoint)
    seen: list[Progress] = []
    again = fit(training_pairs, SMALL, checkpoint=checkpoint, progress=seen.append)
    assert torch.equal(first.trainer.best.mean, again.trainer.best.mean)
    assert seen == []


def test_divergence_is_named_with_advice() -> None:
    config = replace(SMALL, optimiser="sgd", learning_rate=1e8, epochs=50, missing="ignore")
    with pytest.raises(TrainingDivergedError, match=r"lower learning_rate, now 1e\+08"):
        fit(small_world(config).training_pairs, config)


def test_training_stops_when_the_score_no_longer_grows_and_keeps_the_best() -> None:
    config = replace(SMALL, epochs=40, validate_every=2, patience=3)
    scores = iter([1.0, 3.0, 2.0, 2.5, 2.9, 9.0])
    looks: list[torch.Tensor] = []

    def score(trainer: Trainer) -> float:
        looks.append(trainer.parameters.mean.detach().clone())
        return next(scores)

    result = fit(small_world(config).training_pairs, config, score=score)
    assert result.state.epoch == 10
    assert result.state.best_epoch == 4
    assert torch.equal(result.trainer.best.mean, looks[1])


def test_cosine_schedule_falls_from_the_rate_to_a_twentieth() -> None:
    rates = [learning_rate(SMALL, done) for done in np.linspace(0, 1, 11)]
    assert rates[0] == pytest.approx(SMALL.learning_rate)
    assert rates[-1] == pytest.approx(SMALL.learning_rate / 20)
    assert rates == sorted(rates, reverse=True)
    assert learning_rate(replace(SMALL, schedule="constant"), 0.7) == SMALL.learning_rate


def test_zero_start_is_the_one_of_the_paper_and_leaves_the_saddle() -> None:
    config = replace(SMALL, start="zeros", epochs=150, noise_std=0.1)
    assert not start(config).mean.any()
    torch.testing.assert_close(start(config).std, torch.full((21, 4), float(np.log(2))))
    assert fit(small_world(config).training_pairs, config).trainer.best.mean.abs().max() > 0.1


def test_optimisers_are_the_ones_asked_for() -> None:
    assert isinstance(make_optimiser(start(SMALL), SMALL), torch.optim.Adam)
    assert isinstance(make_optimiser(start(SMALL), replace(SMALL, optimiser="sgd")), torch.optim.SGD)
