"""Whether a recommender scores all items or asks an index for candidates."""

import logging
from typing import Literal, get_args

from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online.index.building import build_lists, load_faiss
from igcf.online.index.lists import ItemLists

IndexChoice = Literal["auto", "exact", "faiss"]
INDEXES: tuple[str, ...] = get_args(IndexChoice)
INDEX_FROM = 50_000
"""Items from which `auto` asks an index (docs/scale.md, section Retrieval)."""
logger = logging.getLogger("igcf.index")


def is_wanted(model: Model, index: str) -> bool:
    """Whether `index`, one of `INDEXES`, asks for an index of this model."""
    if index not in INDEXES:
        hint = "; `igcf index` stores one in the folder of a model" if index is None else ""
        raise ConfigError(f"index must be one of {', '.join(INDEXES)}, or an index that was built, got {index!r}{hint}")
    return index == "faiss" or (index == "auto" and model.n_items >= INDEX_FROM)


def find_index(model: Model, index: "str | ItemLists") -> ItemLists | None:
    """Return the index that was given, or build one where it is wanted; None: all items are scored.

    `index` may be `exact` (none), `faiss` (in any case) or `auto` (for large catalogues, if faiss is installed).
    """
    if isinstance(index, ItemLists):
        return index
    if not is_wanted(model, index):
        return None
    if index == "auto":
        try:
            load_faiss()
        except ConfigError as error:
            logger.warning("all %d items are scored for every answer: %s", model.n_items, error)
            return None
    logger.info("building an index of %d items", model.n_items)
    return build_lists(model)
