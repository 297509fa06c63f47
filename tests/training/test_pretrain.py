from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from igcf.config import GraphConfig
from igcf.errors import ConfigError, DataError
from igcf.graph import GraphWarning
from igcf.model import Model
from igcf.online import Greedy, ModelLearner, replay
from igcf.training import Progress, pretrain
from igcf.training.calibrating import precision
from igcf.training.selection import most_active
from tests.training.worlds import checkerboard, log_of

QUICK: dict[str, Any] = {"method": "graph", "dim": 4, "epochs": 120, "learning_rate": 0.1, "validate_every": 40}


def hits_of_new_users(model: Model, rounds: int = 15) -> float:
    """Share of successes among users who like every second item: half of all rounds by chance."""
    users, items = np.indices((8, 40))
    truth = np.where((users + items) % 2 == 0, 5.0, 1.0).astype(np.float32)
    shown = replay(ModelLearner(model, Greedy()), truth, rounds=rounds, rng=np.random.default_rng(0))
    return float((shown.values >= 4).mean())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"graph": "lightgcn"},
        {"graph": "sgc", "edges": "satisfied"},
        {"graph": "none"},
        {"graph": "lightgcn", "layer_weights": (0.5, 0.0, 0.5)},
        {"edges": "satisfied"},
        {"edges": "satisfied", "graph": "tests.training.worlds:two_steps"},
        {"missing": "ignore"},
        {"feedback": "binary"},
        {"feedback": "binary", "missing": "ignore"},
        {"reward": "scaled"},
        {"reward": "raw", "noise_std": 1.0},
        {"item_noise": False},
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()) or "defaults",
)
def test_every_variant_learns_the_checkerboard(settings: dict[str, Any]) -> None:
    model = pretrain(checkerboard(), **QUICK, **settings)
    assert hits_of_new_users(model) > 0.85


@pytest.mark.parametrize("feedback", ["continuous", "binary"])
def test_the_algorithm_of_the_paper_learns_the_checkerboard(feedback: Literal["continuous", "binary"]) -> None:
    """alg:pretrain: zeros, batches, SGD, observed pairs; edges at successes, for all pairs alike tell nothing."""
    quick = {"dim": 4, "learning_rate": 3.0, "batch_size": 300, "kl_weight": 0.1, "epochs": 40, "holdout": 0.0}
    config = GraphConfig.paper(feedback, edges="satisfied", binary_update="bound", **quick)
    assert hits_of_new_users(pretrain(checkerboard(), config)) > 0.85


def test_binary_feedback_as_printed_is_a_gaussian_observation_of_the_logit() -> None:
    config = GraphConfig.paper("binary", dim=4, edges="satisfied", epochs=2, holdout=0.0)
    printed = pretrain(checkerboard(), config)
    bounded = pretrain(checkerboard(), config, binary_update="bound", online_noise_var=None)
    assert printed.dim == 4
    assert bounded.dim == 5  # a constant of one half beside the logits
    slope = bounded.item_noise[0]  # the bound's slope and variance are both 2 lambda
    np.testing.assert_allclose(bounded.item_vectors[:, :4], slope * printed.item_vectors, rtol=1e-5, atol=1e-7)
    assert set(printed.item_noise) == {config.online_noise_var}


def test_model_carries_ids_settings_and_metrics() -> None:
    log = checkerboard()
    model = pretrain(log, GraphConfig(dim=3), epochs=5, seed=7)
    assert model.item_ids == log.item_ids
    assert model.item_vectors.shape == (40, 3)
    assert (model.item_variances > 0).all()
    assert model.metadata["settings"]["seed"] == 7
    assert model.metadata["data"]["fingerprint"] == log.fingerprint()
    assert model.metadata["metrics"]["validation_precision"] > 0
    assert model.metadata["seconds"] > 0


def test_same_seed_gives_the_same_model_and_another_seed_does_not() -> None:
    one, two, other = (pretrain(checkerboard(), method="graph", dim=4, epochs=10, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.item_vectors, two.item_vectors)
    np.testing.assert_array_equal(one.prior_cov, two.prior_cov)
    assert not np.array_equal(one.item_vectors, other.item_vectors)


def test_trained_model_survives_saving(tmp_path: Path) -> None:
    model = pretrain(checkerboard(), method="graph", dim=4, epochs=5)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(Model.load(tmp_path / "model").item_vectors, model.item_vectors)


def test_resumed_pretraining_gives_the_same_model(tmp_path: Path) -> None:
    log, settings = checkerboard(), {"method": "graph", "dim": 4, "epochs": 12, "validate_every": 3}

    class InterruptedRunError(Exception):
        pass

    def crash(progress: Progress) -> None:
        if progress.epoch == 7:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        pretrain(log, checkpoint=tmp_path, progress=crash, **settings)  # type: ignore[arg-type]
    for other in ({**settings, "learning_rate": 0.2}, {}):
        with pytest.raises(ConfigError, match="holds the state of another training: settings differ"):
            pretrain(log, checkpoint=tmp_path, resume=True, **other)  # type: ignore[arg-type]
    resumed = pretrain(log, checkpoint=tmp_path, resume=True, **settings)  # type: ignore[arg-type]
    whole = pretrain(log, **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(resumed.item_vectors, whole.item_vectors)
    np.testing.assert_array_equal(resumed.prior_cov, whole.prior_cov)
    np.testing.assert_array_equal(resumed.noise_var, whole.noise_var)


def test_a_training_that_ends_before_its_first_checkpoint_can_be_resumed(tmp_path: Path) -> None:
    log, state = checkerboard(), tmp_path / "state"

    class InterruptedRunError(Exception):
        pass

    def crash(_: Progress) -> None:
        raise InterruptedRunError

    with pytest.raises(ConfigError, match=r"there is no checkpoint folder .*state; check its name"):
        pretrain(log, checkpoint=state, resume=True, method="graph", dim=4)
    assert not state.exists()
    with pytest.raises(InterruptedRunError):
        pretrain(log, checkpoint=state, progress=crash, method="graph", dim=4, epochs=12, validate_every=3)
    assert [file.name for file in state.iterdir()] == ["training.json"]
    resumed = pretrain(
        log, checkpoint=state, resume=True, progress=False, method="graph", dim=4, epochs=12, validate_every=3
    )
    assert resumed.n_items == log.n_items


def test_progress_tells_epoch_loss_and_validation() -> None:
    seen: list[Progress] = []
    pretrain(
        checkerboard(),
        validation=checkerboard(10, seed=9),
        method="graph",
        dim=4,
        epochs=6,
        validate_every=3,
        progress=seen.append,
    )
    assert [each.epoch for each in seen] == [1, 2, 3, 4, 5, 6]
    assert [each.validation is not None for each in seen] == [False, False, True, False, False, True]
    assert all(each.stats and np.isfinite([each.stats.loss, each.stats.kl]).all() for each in seen)


def test_held_out_users_come_back_for_the_final_training() -> None:
    """With a hold-out there are two trainings; the second one knows all users again."""
    model = pretrain(checkerboard(), method="graph", dim=4, epochs=5)
    assert model.metadata["data"]["reactions"] == len(checkerboard())


def test_held_out_users_are_the_most_active_ones() -> None:
    users = np.repeat(np.arange(100), np.arange(100) % 7 + 1)
    chosen = most_active(np.bincount(users), 0.1)
    assert len(chosen) == 10
    assert (np.bincount(users)[chosen] == 7).all()
    assert len(most_active(np.bincount(users), 0.0)) == 0


def test_log_with_few_users_is_trained_without_holding_anyone_out() -> None:
    model = pretrain(checkerboard(8, 10), method="graph", dim=2, epochs=5)
    assert model.metadata["metrics"]["validation_precision"] is None


def test_tuning_never_lowers_the_validation_precision() -> None:
    train, validation = checkerboard(), checkerboard(12, share=0.9, seed=5)
    tuned, plain = (
        pretrain(
            train,
            validation=validation,
            method="graph",
            dim=4,
            epochs=20,
            validate_every=10,
            validate_rounds=8,
            tune=tune,
        )
        for tune in (True, False)
    )
    precisions = [precision(model, validation.dense(), 8) for model in (tuned, plain)]
    assert precisions[0] >= precisions[1]
    assert tuned.metadata["metrics"]["validation_precision"] == pytest.approx(precisions[0])


def test_given_noise_is_used_as_it_is() -> None:
    assert pretrain(checkerboard(), method="graph", dim=2, epochs=3, online_noise_var=0.2, tune=False).noise_var == 0.2


def test_users_without_reactions_do_not_count() -> None:
    log = checkerboard(30, 40)
    crowd = log_of(2 * log.user_idx, log.item_idx, log.values, 500, 40)
    with_idle, without = (pretrain(each, method="graph", dim=4, epochs=10, holdout=0.0) for each in (crowd, log))
    np.testing.assert_array_equal(with_idle.prior_mean, without.prior_mean)
    np.testing.assert_array_equal(with_idle.item_vectors, without.item_vectors)


def test_item_nobody_reacted_to_gets_a_finite_vector() -> None:
    log = checkerboard(30, 10)
    wider = log_of(log.user_idx, log.item_idx, log.values, 30, 12)
    model = pretrain(wider, method="graph", dim=4, epochs=10)
    assert np.isfinite(model.item_vectors).all()


def test_log_of_one_item_and_one_user_still_gives_a_model() -> None:
    model = pretrain(log_of([0], [0], [5.0], 1, 1), method="graph", dim=2, epochs=3)
    assert model.n_items == 1


def test_complete_graph_warns() -> None:
    with pytest.warns(GraphWarning, match="edges=satisfied"):
        pretrain(checkerboard(20, 10, share=1.1), method="graph", dim=2, epochs=2, holdout=0.0)


def test_empty_log_is_refused() -> None:
    with pytest.raises(DataError, match="no reaction to learn from"):
        pretrain(log_of([], [], [], 3, 3))


def test_validation_log_with_other_items_is_refused() -> None:
    with pytest.raises(DataError, match="same items in the same order"):
        pretrain(checkerboard(), validation=checkerboard(10, 39))


def test_validation_log_without_reactions_is_refused() -> None:
    with pytest.raises(DataError, match="validation log holds no reaction"):
        pretrain(checkerboard(), validation=log_of([], [], [], 3, 40))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimension": 3}, "unknown setting 'dimension'; known are batch_size"),
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a positive number, got nan"),
        (
            {"graph": "gat"},
            "graph must be one of lightgcn, sgc, appnp, none or an import path module:function",
        ),
        ({"batch_size": 10}, "missing=zero uses all pairs"),
        ({"feedback": "binary", "reward": "raw"}, "needs reward=satisfied"),
        ({"layers": 1, "layer_weights": (1.0,)}, "1 layers need 2"),
        ({"holdout": 0.9}, "holdout must be between 0 and 0.5"),
        ({"resume": True}, "resume needs the checkpoint folder"),
    ],
)
def test_bad_settings_are_refused_with_one_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pretrain(checkerboard(), method="graph", **settings)


def test_a_path_instead_of_a_log_is_refused_with_the_way_to_read_it() -> None:
    with pytest.raises(DataError, match=r"found a path: 'ratings.csv'; read it with igcf.load_dataset"):
        pretrain("ratings.csv")  # type: ignore[arg-type]
