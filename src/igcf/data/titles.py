"""Readable invented film titles, so that a demonstration can be followed."""

from itertools import product

import numpy as np

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


def invented_titles(genre_of_item: list[str], *, rng: np.random.Generator) -> tuple[str, ...]:
    """Invent a title with a year for each item, in the words of its first genre; no two are equal.

    Example:
        `The Glass Orchard (1987)`
    """
    pools = {genre: _shuffled_names(genre, rng) for genre in GENRES}
    used = dict.fromkeys(GENRES, 0)
    years = rng.integers(1948, 2025, size=len(genre_of_item))
    titles = []
    for genre, year in zip(genre_of_item, years, strict=True):
        part, place = divmod(used[genre], len(pools[genre]))
        used[genre] += 1
        sequel = f" {part + 1}" if part else ""
        titles.append(f"The {pools[genre][place]}{sequel} ({year})")
    return tuple(titles)


def _shuffled_names(genre: str, rng: np.random.Generator) -> list[str]:
    names = [f"{adjective} {noun}" for adjective, noun in product(ADJECTIVES, NOUNS[genre])]
    return [names[place] for place in rng.permutation(len(names))]
