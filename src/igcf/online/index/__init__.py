"""Candidates from an inverted file of the items, for catalogues that are too large to score in full."""

from igcf.online.index.engine import IndexedEngine
from igcf.online.index.lists import IndexChoice, ItemLists, build_lists, find_index

__all__ = ["IndexChoice", "IndexedEngine", "ItemLists", "build_lists", "find_index"]
