"""A column of the paper's tables: a dataset with the model that is trained on it."""

from __future__ import annotations

from dataclasses import dataclass

from swr.bench import data
from swr.bench.models import MODELS
from swr.methods import UnknownName

FOLDER = "folder:"


@dataclass(frozen=True)
class Column:
    """Where a run trains what."""

    name: str
    dataset: str
    model: str
    title: str
    """as the paper writes it"""
    seeds: int = 5
    """the paper's number of seeds"""
    batch_size: int = 256

    @property
    def split(self) -> bool:
        """Whether SWR has two coefficients: networks with batch normalisation."""
        return self.model in ("cnnbn", "cnnbnpad", "vgg16")


PAPER: dict[str, Column] = {
    column.name: column
    for column in (
        Column("mnist-mlp", "mnist", "mlp", "MNIST (MLP)"),
        Column("cifar10-cnn", "cifar10", "cnn", "CIFAR-10 (CNN)"),
        Column("cifar100-cnn", "cifar100", "cnn", "CIFAR-100 (CNN)"),
        Column("cifar100-cnnbn", "cifar100", "cnnbn", "CIFAR-100 (CNN-BN)"),
        Column("tinyimagenet-vgg16", "tinyimagenet", "vgg16", "TinyImageNet (VGG-16)", seeds=3),
    )
}
"""the five columns of the paper, in its order"""

COLUMNS: dict[str, Column] = {
    **PAPER,
    "digits-mlp": Column("digits-mlp", "digits", "mlp", "digits (MLP)", batch_size=32),
    "bits-mlp5": Column("bits-mlp5", "bits", "mlp5", "bits (5 hidden units)", batch_size=16),
}
"""with those that need no download: digits, and what the bit-flipping stream generates"""


def columns() -> tuple[str, ...]:
    """The names of the columns; any other ``DATASET-MODEL`` is understood besides, ``folder:PATH-cnn`` too."""
    return tuple(COLUMNS)


def find(name: str) -> Column:
    """The column of that name.

    >>> find("cifar10-cnnbn").model
    'cnnbn'
    """
    if name in COLUMNS:
        return COLUMNS[name]
    dataset, _, model = name.rpartition("-")
    if model in MODELS and (dataset in data.known() or (dataset.startswith(FOLDER) and dataset != FOLDER)):
        return Column(name, dataset, model, f"{dataset} ({model})", batch_size=32 if dataset == "digits" else 256)
    models = ", ".join(MODELS)
    raise UnknownName("column", name, COLUMNS, f", and DATASET-MODEL with the models {models}, for example folder:PATH-cnn")
