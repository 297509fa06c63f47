"""What settings of the default model bring, on the validation users of cold start; no test user is involved.

    python -m tools.ablation ml-100k grades=false iterations=5 linear_dim=24
    python -m tools.ablation ml-1m grades=false --share 0.1

The temperature is chosen on one half of the validation users and judged on the other, both ways. Printed are successes
per user, the change against the defaults, and p of a paired t test.
"""

import click
import numpy as np
from scipy.stats import ttest_1samp

from igcf.arrays import FloatArray
from igcf.config import ExpertsConfig, parse_settings
from igcf.data import load_dataset
from igcf.lab.evaluate import setup_for
from igcf.lab.evaluate.protocols.cold import cold_users
from igcf.model import Reward
from igcf.online import Greedy, ModelLearner, replay
from igcf.training.experts.choosing import Players, best_temperature
from igcf.training.experts.executor import one_thread_each
from igcf.training.experts.fitting import Fits
from igcf.training.experts.shared_log import SharedLog

CUTOFFS = (10, 40, 120)


@click.command()
@click.argument("dataset")
@click.argument("changes", nargs=-1)
@click.option("--share", default=1.0, show_default=True, help="Share of the training reactions that is kept.")
def main(dataset: str, changes: tuple[str, ...], share: float) -> None:
    """Print one row for the defaults and one for each change of a setting."""
    data = load_dataset(dataset)
    setup = setup_for(data, "cold-start")
    split = cold_users(data, setup, 0)
    train, truth = split.train, split.validation.dense()
    if share < 1.0:
        train = train.subset(np.random.default_rng(0).random(len(train)) < share)
        train = train.only_users(np.unique(train.user_idx))
    log, reward = SharedLog.of(train), Reward.from_log(train.values, "satisfied", setup.satisfied)
    cutoffs = np.array([each for each in CUTOFFS if each <= data.n_items // 4])

    def played(text: str) -> FloatArray:
        settings = parse_settings((text,)) if text else {}
        config = ExpertsConfig(satisfied=setup.satisfied, validate_rounds=int(cutoffs[-1]), **settings)
        fits = Fits(log, config, reward, lambda *_: None)
        found = np.empty((len(truth), len(cutoffs)))
        halves = (np.arange(0, len(truth), 2), np.arange(1, len(truth), 2))
        for own, others in (halves, halves[::-1]):
            model = fits.model(best_temperature(fits, truth[others], Players(log.executor))[0])
            rng = np.random.default_rng(0)
            shown = replay(ModelLearner(model, Greedy()), truth[own], rounds=int(cutoffs[-1]), rng=rng)
            found[own] = model.reward.is_satisfied(shown.values)[:, :, 0].cumsum(axis=1)[:, cutoffs - 1]
        return found

    click.echo(f"{dataset}, {share:.0%} of {len(train):,} reactions, {len(truth)} validation users, T = {cutoffs}")
    with one_thread_each():
        whole = played("")
        click.echo(f"{'defaults':28} {whole.mean(axis=0).round(3)}")
        for text in changes:
            own = played(text)
            gain = own - whole
            told = [
                f"{each.mean() / base:+.2%} p={ttest_1samp(each, 0).pvalue if each.any() else 1:.3f}"
                for each, base in zip(gain.T, whole.mean(axis=0), strict=True)
            ]
            click.echo(f"{text:28} {own.mean(axis=0).round(3)} {'  '.join(told)}")


if __name__ == "__main__":
    main()
