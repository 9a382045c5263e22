"""The list of columns. A new one is one more entry."""

from __future__ import annotations

from swr.bench import data
from swr.bench.experiments.column import Column, Published
from swr.bench.experiments.models import MODELS
from swr.bench.experiments.published import FIVE
from swr.methods import UnknownName

FOLDER = "folder:"

COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        *FIVE,
        *(
            Column(f"cifar100-{model}", "cifar100", model, title, seeds=3, hyper=FIVE[-1].hyper, hyper_of=FIVE[-1].name)
            for model, title in (("vgg16", "CIFAR-100 (VGG-16)"), ("vgg16thin", "CIFAR-100 (thin VGG-16)"))
        ),
        Column("cifar10-vit", "cifar10", "vit", "CIFAR-10 (ViT)", seeds=3),
        Column("cifar100-vit", "cifar100", "vit", "CIFAR-100 (ViT)", seeds=3),
        Column("digits-mlp", "digits", "mlp", "digits (MLP)", batch_size=32),
        Column("bits-mlp5", "bits", "mlp5", "bits (5 hidden units)", batch_size=16, made_for="bit-flipping"),
        Column("cartpole-dqn", "cartpole", "dqn", "CartPole (DQN)", made_for="changing-channels"),
        Column("cartpole-ppo", "cartpole", "ppo", "CartPole (PPO)", made_for="changing-channels"),
        Column("cartpole-dqnln", "cartpole", "dqnln", "CartPole (DQN, LayerNorm)", made_for="changing-channels"),
        Column("cartpole-ppoln", "cartpole", "ppoln", "CartPole (PPO, LayerNorm)", made_for="changing-channels"),
    )
}
"""those of the paper, its VGG-16 on smaller images and at a quarter of the width, transformers, then what needs no download:
digits, and what is generated"""


def find_column(name: str) -> Column:
    """The column of that name; any other ``DATASET-MODEL`` is also accepted, ``folder:PATH-cnn`` too.

    >>> find_column("cifar10-cnnbn").model
    'cnnbn'
    """
    if name in COLUMNS:
        return COLUMNS[name]
    dataset, _, model = name.rpartition("-")
    supervised = [name for name, known in MODELS.items() if known.agent is None]
    if model in supervised and (dataset in data.known() or (dataset.startswith(FOLDER) and dataset != FOLDER)):
        return Column(name, dataset, model, f"{dataset} ({model})", batch_size=32 if dataset == "digits" else 256)
    models = ", ".join(supervised)
    raise UnknownName("column", name, COLUMNS, f", and DATASET-MODEL with the models {models}, for example folder:PATH-cnn")


def column_title(name: str) -> str:
    """A column as the paper writes it; one that this version does not know, by its name."""
    try:
        return find_column(name).title
    except UnknownName:
        return name


def published(experiment: str, column: str, line: str) -> Published | None:
    """Mean and standard deviation of the final test accuracy in the paper's tables; None where it only has a figure."""
    found = COLUMNS.get(column)
    return found.published.get(experiment, {}).get(line) if found else None
