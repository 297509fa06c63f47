"""Candidates from an inverted file of the items, for catalogues that are too large to score in full."""

from igcf.online.index.engine import IndexedEngine
from igcf.online.index.files import INDEX_FROM, INDEXES, find_index, index_of_folder, load_lists, save_lists
from igcf.online.index.lists import ItemLists, build_lists

__all__ = [
    "INDEXES",
    "INDEX_FROM",
    "IndexedEngine",
    "ItemLists",
    "build_lists",
    "find_index",
    "index_of_folder",
    "load_lists",
    "save_lists",
]
