"""Logs of reactions: readers, known data sets, a synthetic catalogue, splits."""

from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.registry import DATASETS, dataset_info, default_data_dir, find_dataset, load_dataset
from igcf.data.splits import cold_start, taste_drift
from igcf.data.success import success_in
from igcf.data.synthetic import synthetic_catalogue, synthetic_world

__all__ = [
    "DATASETS", "MISSING_TIME", "Interactions", "cold_start", "dataset_info", "default_data_dir", "find_dataset",
    "load_dataset", "success_in", "synthetic_catalogue", "synthetic_world", "taste_drift",
]  # fmt: skip
