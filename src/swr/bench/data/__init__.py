"""Datasets as one uint8 tensor per split: found or downloaded, decoded once, then memory-mapped from a cache file."""

from swr.bench.data.catalogue import Status, check, download, known, load, status
from swr.bench.data.dataset import DataError, Dataset, Split
from swr.bench.data.sources import SOURCES, Archive, Part, Source
from swr.bench.data.splits import hold_out, with_label_noise

__all__ = [
    "SOURCES",
    "Archive",
    "DataError",
    "Dataset",
    "Part",
    "Source",
    "Split",
    "Status",
    "check",
    "download",
    "hold_out",
    "known",
    "load",
    "status",
    "with_label_noise",
]
