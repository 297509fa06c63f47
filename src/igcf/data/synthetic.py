"""Synthetic film catalogues: one with a known truth, which the tests live in, and one with drifting popularity.

Users have mixed tastes over genres and react to what is popular or to their taste, so that the log shows a part of the
truth, chosen as people choose. Whether a reaction satisfies depends on taste and on the quality of the item:

    utility = TASTE_WEIGHT * taste_u . genres_i + quality_i - THRESHOLD,   P(satisfied) = sigmoid(utility)
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.errors import DataError

ADJECTIVES = (
    "Glass", "Quiet", "Crooked", "Silver", "Last", "Hollow", "Paper", "Burning", "Winter", "Velvet", "Broken",
    "Distant", "Golden", "Borrowed", "Midnight", "Salt", "Wandering", "Second", "Painted", "Iron", "Sleeping",
    "Emerald", "Forgotten", "Crimson",
)  # fmt: skip

NOUNS: dict[str, tuple[str, ...]] = {
    "Adventure": ("Caravan", "Atlas", "Compass", "Lagoon", "Expedition", "Monsoon", "Canyon", "Galleon"),
    "Animation": ("Teapot", "Kite", "Lantern", "Hedgehog", "Umbrella", "Carousel", "Snowman", "Puppet"),
    "Comedy": ("Landlord", "Wedding", "Sandwich", "Bachelor", "Holiday", "Parrot", "Bicycle", "Neighbour"),
    "Crime": ("Alibi", "Ledger", "Informant", "Safe", "Witness", "Syndicate", "Verdict", "Getaway"),
    "Documentary": ("Harvest", "Glacier", "Archive", "Orchestra", "Reef", "Census", "Railway", "Apprentice"),
    "Drama": ("Orchard", "Daughter", "Inheritance", "Letter", "Harbour", "Promise", "Piano", "Household"),
    "Fantasy": ("Dragon", "Oracle", "Enchanter", "Crown", "Labyrinth", "Griffin", "Spell", "Moonstone"),
    "Horror": ("Cellar", "Scarecrow", "Séance", "Asylum", "Graveyard", "Mirror", "Whisper", "Attic"),
    "Romance": ("Waltz", "Rose", "Serenade", "Kiss", "Balcony", "Summer", "Valentine", "Duet"),
    "Science Fiction": ("Orbit", "Android", "Nebula", "Colony", "Signal", "Starship", "Paradox", "Satellite"),
    "Thriller": ("Hostage", "Cipher", "Pursuit", "Stranger", "Countdown", "Shadow", "Motel", "Conspiracy"),
    "Western": ("Saloon", "Marshal", "Stagecoach", "Mustang", "Prairie", "Outlaw", "Ranch", "Gunslinger"),
}
"""Genre -> things that happen in it."""

GENRES = tuple(NOUNS)
CHANGING_SHARE = 0.2
"""Share of the users with a taste drawn anew in the middle of their history."""
TASTE_WEIGHT = 10.0
THRESHOLD = 2.5
POPULARITY_EXPONENT = 0.7
CHOICE_WEIGHT = 7.0
"""Weight of taste, compared with popularity, in what a user reacts to."""
DAYS, DAY_S = 730, 86_400
FADE_DAYS, FLOOR = 90.0, 0.02
"""Days after which an item's popularity has fallen to 1 / e where it drifts, and the share that it keeps."""
START_S = 1_577_836_800  # 2020-01-01


@dataclass(frozen=True, eq=False)
class SyntheticWorld:
    """Log of synthetic users, with the truth that a recommender has to infer."""

    log: Interactions
    user_tastes: FloatArray
    """Tastes at the beginning, users x genres; rows sum to one."""
    later_tastes: FloatArray
    """Tastes in the second half of a user's reactions; equal to `user_tastes` for those who do not change."""
    is_changing: BoolArray
    """Whether the taste of each user changes."""
    item_tastes: FloatArray
    """Genres of each item, items x genres; rows have length one."""
    item_quality: FloatArray
    """Quality of each item, which adds to every user's utility."""
    stars: Float32Array
    """Stars that each user would give to each item at the beginning, users x items; the log shows some of them."""
    later_stars: Float32Array
    """Stars that each user would give to each item in the second half of their reactions, users x items."""

    @cached_property
    def satisfaction(self) -> FloatArray:
        """Probability that the item satisfies the user at the beginning, users x items."""
        return _satisfaction(self.user_tastes, self.item_tastes, self.item_quality)


def synthetic_catalogue(*, n_users: int = 1200, n_items: int = 800, seed: int = 0) -> Interactions:
    """Return the log of `synthetic_world`, about 80,000 reactions at the default size."""
    return synthetic_world(n_users=n_users, n_items=n_items, seed=seed).log


def synthetic_world(*, n_users: int = 1200, n_items: int = 800, seed: int = 0) -> SyntheticWorld:
    """Generate a catalogue, users, reactions and the truth behind them; the same seed gives the same world."""
    if n_users < 2 or n_items < 20:
        raise DataError(f"a synthetic world needs 2 users and 20 items or more, got {n_users} and {n_items}")
    rng = np.random.default_rng(seed)
    popularity, item_quality = _popularity_and_quality(n_items, rng)
    item_tastes = _item_tastes(n_items, rng)
    user_tastes = rng.dirichlet(np.full(len(GENRES), 0.25), size=n_users)
    is_changing = rng.random(n_users) < CHANGING_SHARE
    later_tastes = np.where(is_changing[:, None], rng.dirichlet(np.full(len(GENRES), 0.25), size=n_users), user_tastes)

    luck = rng.random((n_users, n_items))
    stars = _stars(_satisfaction(user_tastes, item_tastes, item_quality), luck)
    later_stars = _stars(_satisfaction(later_tastes, item_tastes, item_quality), luck)

    chance = rng.gumbel(size=(n_users, n_items)) + np.log(popularity)  # top n of this: n draws without replacement
    activity = np.clip(rng.lognormal(np.log(45), 0.9, size=n_users), 12, n_items // 2).astype(np.int64)
    first = _chosen(chance + CHOICE_WEIGHT * user_tastes @ item_tastes.T, (activity + 1) // 2)
    later_chance = np.where(first, -np.inf, chance + CHOICE_WEIGHT * later_tastes @ item_tastes.T)
    second = _chosen(later_chance, activity // 2)

    log = _log(first, second, np.where(second, later_stars, stars), item_tastes, rng)
    return SyntheticWorld(log, user_tastes, later_tastes, is_changing, item_tastes, item_quality, stars, later_stars)


def drifting_catalogue(*, n_users: int = 1200, n_items: int = 800, seed: int = 0) -> Interactions:
    """Return a log of returning users over two years; what they choose follows their taste and what is popular then.

    Items appear, are popular for some weeks, and fade.
    """
    rng = np.random.default_rng(seed)
    popularity, quality = _popularity_and_quality(n_items, rng)
    item_tastes = _item_tastes(n_items, rng)
    tastes = rng.dirichlet(np.full(len(GENRES), 0.25), size=n_users)
    stars = _stars(_satisfaction(tastes, item_tastes, quality), rng.random((n_users, n_items)))
    released = np.where(rng.random(n_items) < 0.2, -FADE_DAYS, rng.uniform(-FADE_DAYS, DAYS, n_items))
    activity = np.clip(rng.lognormal(np.log(45), 0.9, size=n_users), 12, n_items // 4).astype(np.int64)
    days, items = [], []
    for user in range(n_users):
        days.append(np.sort(rng.uniform(0, DAYS, activity[user])))
        appeal = np.log(popularity) + CHOICE_WEIGHT * item_tastes @ tastes[user]
        items.append(_chosen_by_day(appeal, released, days[-1], rng))
    times = START_S + DAY_S * np.concatenate(days)
    reactions = np.repeat(np.arange(n_users), activity), np.concatenate(items), times
    return _in_time("synthetic-drift", reactions, stars, item_tastes, rng)


def _chosen_by_day(appeal: FloatArray, released: FloatArray, days: FloatArray, rng: np.random.Generator) -> IntArray:
    """Choose one item per day, none twice: by appeal, by what is popular on that day, and by chance."""
    left, found = np.ones(len(appeal), dtype=np.bool_), np.empty(len(days), dtype=np.int64)
    for place, day in enumerate(days):
        age = day - released
        trend = np.log(FLOOR + (1.0 - FLOOR) * np.exp(-np.maximum(age, 0.0) / FADE_DAYS))
        score = appeal + trend + rng.gumbel(size=len(appeal))
        found[place] = int(np.argmax(np.where(left & (age >= 0), score, -np.inf)))
        left[found[place]] = False
    return found


def _popularity_and_quality(n_items: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw popularities from a power law, and qualities; popular items are somewhat better."""
    popularity = np.power(1.0 + rng.permutation(n_items), -POPULARITY_EXPONENT, dtype=np.float64)
    spread: FloatArray = (np.log(popularity) - np.log(popularity).mean()) / np.log(popularity).std()
    return popularity, 0.4 * spread + 0.5 * rng.standard_normal(n_items)


def _item_tastes(n_items: int, rng: np.random.Generator) -> FloatArray:
    """Draw one to three genres per item, the first one the strongest."""
    genres = rng.random((n_items, len(GENRES))).argsort(axis=1)[:, :3]
    weights = np.array([1.0, 0.6, 0.4]) * (np.arange(3) < rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2], size=(n_items, 1)))
    tastes = np.zeros((n_items, len(GENRES)))
    np.put_along_axis(tastes, genres, weights, axis=1)
    return np.asarray(tastes / np.linalg.norm(tastes, axis=1, keepdims=True))


def _satisfaction(user_tastes: FloatArray, item_tastes: FloatArray, quality: FloatArray) -> FloatArray:
    utility = TASTE_WEIGHT * user_tastes @ item_tastes.T + quality - THRESHOLD
    return np.asarray(1.0 / (1.0 + np.exp(-utility)))


def _stars(satisfaction: FloatArray, luck: FloatArray) -> Float32Array:
    """4 or 5 stars with the probability of satisfaction, 1 to 3 otherwise; the surer, the more extreme."""
    edges = np.stack([0.3 * satisfaction**0.5, satisfaction, satisfaction + 0.4 * (1 - satisfaction),
                      satisfaction + 0.75 * (1 - satisfaction)])  # fmt: skip
    return np.asarray(5 - (luck > edges).sum(axis=0), dtype=np.float32)


def _chosen(score: FloatArray, n_chosen: IntArray) -> BoolArray:
    """Return the `n_chosen` best items of each user."""
    rank = (-score).argsort(axis=1).argsort(axis=1)
    return np.asarray(rank < n_chosen[:, None])


def _log(
    first: BoolArray, second: BoolArray, stars: Float32Array, item_tastes: FloatArray, rng: np.random.Generator
) -> Interactions:
    """Make the log of the chosen pairs: users arrive over two years and stay for some weeks."""
    n_users = len(first)
    user_idx, item_idx = np.nonzero(first | second)
    arrival = DAYS * DAY_S * rng.random((n_users,))
    stay = DAY_S * (1 + rng.exponential(20, size=(n_users,)))
    within = (rng.random(len(user_idx)) + second[user_idx, item_idx]) / 2  # the second half of the stay comes later
    times = (START_S + arrival[user_idx] + within * stay[user_idx]).astype(np.int64)
    return _in_time("synthetic", (user_idx, item_idx, times), stars, item_tastes, rng)


def _in_time(
    name: str,
    reactions: tuple[IntArray, IntArray, IntArray | FloatArray],
    stars: Float32Array,
    item_tastes: FloatArray,
    rng: np.random.Generator,
) -> Interactions:
    """Make the log of some reactions (users, items, times) in the order of time, with invented titles."""
    user_idx, item_idx, times = reactions
    order = np.argsort(times, kind="stable")
    strongest = np.argsort(-item_tastes, axis=1, kind="stable")
    genres = [tuple(GENRES[g] for g in own if item_tastes[row, g] > 0) for row, own in enumerate(strongest)]
    return Interactions(
        user_ids=tuple(f"u{row:04d}" for row in range(len(stars))),
        item_ids=tuple(f"i{row:04d}" for row in range(len(genres))),
        user_idx=user_idx[order].astype(np.int32),
        item_idx=item_idx[order].astype(np.int32),
        values=stars[user_idx, item_idx][order],
        timestamps=times[order].astype(np.int64),
        titles=invented_titles([names[0] for names in genres], rng=rng),
        categories=tuple(genres),
        name=name,
    )


def invented_titles(genre_of_item: list[str], *, rng: np.random.Generator) -> tuple[str, ...]:
    """Invent titles like `The Glass Orchard (1987)` in the words of each item's first genre; no two are equal."""
    names = {genre: [f"{each} {noun}" for each, noun in product(ADJECTIVES, NOUNS[genre])] for genre in GENRES}
    pools = {genre: [own[place] for place in rng.permutation(len(own))] for genre, own in names.items()}
    used = dict.fromkeys(GENRES, 0)
    years = rng.integers(1948, 2025, size=len(genre_of_item))
    titles = []
    for genre, year in zip(genre_of_item, years, strict=True):
        part, place = divmod(used[genre], len(pools[genre]))
        used[genre] += 1
        sequel = f" {part + 1}" if part else ""
        titles.append(f"The {pools[genre][place]}{sequel} ({year})")
    return tuple(titles)
