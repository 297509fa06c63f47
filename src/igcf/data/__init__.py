"""Logs of reactions: readers, known data sets, a synthetic catalogue, splits."""

from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.registry import DATASETS, DatasetInfo, dataset_info, default_data_dir, find_dataset, load_dataset
from igcf.data.splits import ColdStart, TasteDrift, cold_start, taste_drift
from igcf.data.success import Success, success_in
from igcf.data.synthetic import SyntheticWorld, synthetic_catalogue, synthetic_world

__all__ = [
    "DATASETS",
    "MISSING_TIME",
    "ColdStart",
    "DatasetInfo",
    "Interactions",
    "Success",
    "SyntheticWorld",
    "TasteDrift",
    "cold_start",
    "dataset_info",
    "default_data_dir",
    "find_dataset",
    "load_dataset",
    "success_in",
    "synthetic_catalogue",
    "synthetic_world",
    "taste_drift",
]
