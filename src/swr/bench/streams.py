"""The field's streams as data: many short tasks behind each other, how long each is, and the number it is judged by.

    permuted-pixels     every task shows the same images, their pixels in a new order
    random-labels       every task shuffles the labels of the same few images, to be learnt by heart
    label-permutation   every task renames the classes
    five-plus-one       hard tasks of five new classes and easy tasks of one take turns; no class ever comes back
    class-incremental   every task adds classes to those there are; outputs of classes yet to come do not count
    bit-flipping        regression; every task flips one of fifteen bits that otherwise stay

The average online accuracy is the accuracy on every batch before its update, averaged over a task's steps, then over the
tasks (of `five-plus-one`: the hard ones). Sizes are those of L2 Init (S. Kumar, H. Marklund, B. Van Roy, 2023, "Maintaining
Plasticity in Continual Learning via Regenerative Regularization") where it has the stream, as they are meant for Adam and
batches: 500 x 10,000 images of MNIST; 50 x 400 epochs on 1,200 images; 30 tasks of about 780 steps of 32, which is 10 epochs
of a hard task and 50 of an easy one. `label-permutation` has the 400 x 2,500 images of UPGD (M. Elsayed, A. R. Mahmood,
2024), in batches of 16 in place of single images. `class-incremental` and `bit-flipping` are of S. Dohare et al., 2024, "Loss
of plasticity in deep continual learning": 20 x 5 classes, here with 100 epochs a stage, no augmentation and a constant
learning rate, as in FIRE; and 300 x 10,000 examples, here in batches of 16. Sizes on digits are ours: one method and seed
take less than a minute on one core; `permuted-pixels` has a learning rate of 3e-3 there, so that 200 tasks are enough to lose
plasticity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ACCURACY = "average online accuracy"
ERROR = "average squared error"
TEST = "test accuracy"

FIRST = "first tenth of tasks"
LAST = "last tenth of tasks"


@dataclass(frozen=True)
class Size:
    """How long a stream is, and in which steps it is learnt."""

    tasks: int
    epochs: tuple[int, ...] = (1,)
    """of a task; if there are several, tasks take turns"""
    batch_size: int = 16
    examples: int | None = None
    """of a task; None: all that there are"""
    lr: float = 1e-3


@dataclass(frozen=True)
class Stream:
    """A stream, and what it is run on."""

    about: str
    metric: str
    sizes: Mapping[str, Size]
    """by column; the first is what it is run on by default, and its size that of columns without one of their own"""


STREAMS: dict[str, Stream] = {
    "permuted-pixels": Stream(
        "one pass over the images a task, their pixels in a new order each time",
        ACCURACY,
        {"mnist-mlp": Size(500, examples=10_000), "digits-mlp": Size(200, lr=3e-3)},
    ),
    "random-labels": Stream(
        "a few images learnt by heart, their labels shuffled anew at each task",
        ACCURACY,
        {
            "mnist-mlp": Size(50, (400,), examples=1_200),
            "cifar10-mlp": Size(50, (400,), examples=1_200),
            "digits-mlp": Size(30, (20,), examples=320),
        },
    ),
    "label-permutation": Stream(
        "one pass over new images a task, the classes renamed each time",
        ACCURACY,
        {"cifar10-cnn": Size(400, examples=2_500), "digits-mlp": Size(200)},
    ),
    "five-plus-one": Stream(
        "five new classes, then one, then five others: accuracy on the tasks of five",
        ACCURACY,
        {"cifar100-cnn": Size(30, (10, 50), batch_size=32)},
    ),
    "class-incremental": Stream(
        "more classes at each stage, all their images kept: test accuracy on the classes so far",
        TEST,
        {"cifar100-cnn": Size(20, (100,), batch_size=256), "digits-mlp": Size(5, (20,), batch_size=32)},
    ),
    "bit-flipping": Stream(
        "regression on 20 bits, one of the 15 slow ones flips at each task",
        ERROR,
        {"bits-mlp5": Size(300, examples=10_000)},
    ),
}

METHODS = ("vanilla", "full-reset", "l2", "l2-init", "shrink-perturb", "redo", "continual-backprop", "swr")
"""the rows of a stream's table; the full reset is a fresh network for every task, what the others are measured against"""


def size(stream: str, column: str) -> Size:
    """How long a stream is on a column.

    >>> size("permuted-pixels", "digits-mlp").tasks
    200
    """
    sizes = STREAMS[stream].sizes
    return sizes.get(column, next(iter(sizes.values())))


def epochs(size: Size, scale: float = 1.0) -> tuple[int, ...]:
    """Of each task. A scale multiplies the number of tasks of one pass (two are left at least), or the epochs of longer tasks.

    >>> epochs(Size(4), 0.5), epochs(Size(4, (10, 50)), 0.1)
    ((1, 1), (1, 5, 1, 5))
    """
    if max(size.epochs) == 1:
        return (1,) * max(2, round(size.tasks * scale))
    turns = [max(1, round(n * scale)) for n in size.epochs]
    return tuple(turns[task % len(turns)] for task in range(size.tasks))


def counts(stream: str, task: int) -> bool:
    """Whether a task counts in the stream's metric: all do but the easy ones."""
    return stream != "five-plus-one" or task % 2 == 0


def metric(experiment: str) -> str:
    """What the runs of an experiment are judged by."""
    return STREAMS[experiment].metric if experiment in STREAMS else TEST
