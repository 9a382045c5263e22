"""Small datasets, and what a scenario makes of them."""

import torch

from swr.bench.data import Dataset, Split
from swr.bench.experiments import RunConfig, Task
from swr.bench.experiments.material import prepare

CLASSES = 13
COUNT = 103


def dataset(channels: int = 1) -> Dataset:
    """Thirteen classes of ten images each."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (130, channels, 4, 4), dtype=torch.uint8, generator=generator)
    labels = torch.arange(130) % CLASSES
    return Dataset("toy", CLASSES, Split(images, labels), Split(images[:39], labels[:39]), (0.5,) * channels, (0.3,) * channels)


def uneven() -> Dataset:
    """A number of images that no number of stages divides."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (COUNT, 1, 4, 4), dtype=torch.uint8, generator=generator)
    train = Split(images, torch.randint(7, (COUNT,), generator=generator))
    return Dataset("toy", 7, train, Split(images[:11], train.labels[:11]), (0.5,), (0.3,))


def pictures(shape=(3, 20, 20), count: int = 40) -> Dataset:
    """Random images in four classes."""
    generator = torch.Generator().manual_seed(0)
    splits = [
        Split(
            torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator),
            torch.randint(4, (n,), generator=generator),
        )
        for n in (count, 16)
    ]
    return Dataset("pictures", 4, *splits, mean=(0.4, 0.5, 0.6)[: shape[0]], std=(0.2, 0.3, 0.1)[: shape[0]])


def stream_config(scenario: str, tasks: int = 4, **changes) -> RunConfig:
    given = {"column": "digits-mlp", "method": "vanilla", "scenario": scenario, "epochs": (1,) * tasks, **changes}
    return RunConfig(scenario, **given)


def chunk_config(scenario: str, epochs: tuple[int, ...], **changes) -> RunConfig:
    return RunConfig("warm-start", "digits-mlp", "vanilla", scenario=scenario, epochs=epochs, **changes)


def shown(run: RunConfig, number: int, data: Dataset | None = None) -> Task:
    """A task of a stream."""
    data = data or dataset()
    return run.setting.task(run, number, data.train, data.test, data.classes)


def of_tasks(run: RunConfig) -> list[torch.Tensor]:
    """The training examples of each task."""
    return [stage.indices for stage in prepare(run, dataset()).stages]


def of_chunks(scenario: str, epochs: tuple[int, ...], **changes) -> list[torch.Tensor]:
    """The training examples of each stage."""
    return [stage.indices for stage in prepare(chunk_config(scenario, epochs, **changes), uneven()).stages]


def normalise(images: torch.Tensor, dataset: Dataset) -> torch.Tensor:
    """The formula, word by word: y_c = (x_c / 255 - mean_c) / std_c, in the order of operations of :class:`Feed`."""
    scale = torch.tensor([1 / (255 * std) for std in dataset.std]).view(-1, 1, 1)
    shift = torch.tensor([mean / std for mean, std in zip(dataset.mean, dataset.std, strict=True)]).view(-1, 1, 1)
    return images.float() * scale - shift
