"""The task on which a trained and a fresh network are compared: the user's batches, or a new task made of their inputs.

Plasticity is the ability to learn something *new*. On batches that a network already fits it has a head start that says
nothing about it. Two new tasks can be made of the same inputs:

relabelled   every class gets the label of another one. Features stay useful, as in a next task that is related to the last.
shuffled     the targets are shuffled over the examples, the random-label probe of the literature. What was learned is of no
             use, and in the way: networks that fit their data well are often behind here and not on a related task. Works for
             every loss and every kind of target.

References:
    C. Lyle, Z. Zheng, E. Nikishin, B. Avila Pires, R. Pascanu, W. Dabney: Understanding Plasticity in Neural Networks, ICML
    2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.utils import _pytree as pytree

from swr.errors import InputsError

Batch = tuple[Any, Any]
"""inputs and targets"""

Task = Literal["given", "relabelled", "shuffled"]
Targets = Literal["auto", "given", "relabelled", "shuffled"]

EXAMPLES = 1280
"""of a shuffled task at most; fixed labels of more examples are not learned in some hundred steps"""
VISITS = 50
"""how often a shuffled batch is seen at least, where there are enough steps"""


def collect(batches: Iterable[Batch], limit: int, device: torch.device) -> list[Batch]:
    """The first batches, on a device.

    Args:
        batches: pairs of inputs and targets.
        limit: how many at most.
        device: where the model is.

    Raises:
        InputsError: there is none, or one is not a pair.
    """
    found = []
    if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        raise InputsError(f"batches must be an iterable of pairs (inputs, targets), found {type(batches).__name__}.")
    for batch in islice(batches, limit):
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            what = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, (tuple, list)) else type(batch).__name__
            raise InputsError(f"each batch must be a pair (inputs, targets), found a {what}.")
        inputs, targets = pytree.tree_map_only(Tensor, lambda t: t.detach().to(device), tuple(batch))
        found.append((inputs, targets))
    if not found:
        raise InputsError("batches is empty: pass at least one pair (inputs, targets); a generator can be read only once.")
    return found


def has_classes(batches: Sequence[Batch]) -> bool:
    """Whether the targets are one tensor of at least two classes, as integers."""
    found = [targets for _, targets in batches]
    if not all(isinstance(t, Tensor) and not t.is_floating_point() and not t.is_complex() for t in found):
        return False
    return len(_classes(batches)) > 1


def relabelled(batches: Sequence[Batch], seed: int) -> list[Batch]:
    """The same inputs, where every class has the label of another one; negative labels, to be ignored, stay.

    >>> [(_, targets)] = relabelled([(torch.zeros(4), torch.tensor([0, 1, 1, -100]))], seed=0)
    >>> targets.tolist()
    [1, 0, 0, -100]

    Args:
        batches: all of the task, with integers as targets.
        seed: of the permutation of the classes.

    Raises:
        InputsError: the targets are not classes, or all of one class.
    """
    if not has_classes(batches):
        raise InputsError("only targets that are integers of two or more classes can be relabelled; pass targets='shuffled'.")
    classes = _classes(batches)
    order = classes[torch.randperm(len(classes), generator=Generator().manual_seed(seed))]
    table = torch.arange(int(classes.max()) + 1)
    table[order] = order.roll(1)  # a cycle through all classes, so that none keeps its label
    found: list[Batch] = []
    for inputs, targets in batches:
        new = table.to(targets.device)[targets.long().clamp_min(0)].to(targets.dtype)
        found.append((inputs, torch.where(targets < 0, targets, new)))
    return found


def _classes(batches: Sequence[Batch]) -> Tensor:
    every: Tensor = torch.cat([targets.flatten().cpu().long() for _, targets in batches]).unique()
    return every[every >= 0]


def shuffled_pool(batches: Sequence[Batch], steps: int) -> list[Batch]:
    """The batches of a shuffled task: few enough for a fresh network to learn their targets in this number of steps."""
    enough = -(-EXAMPLES // max(examples(batches[0]), 1))
    return list(batches[: max(1, min(steps // VISITS, enough))])


def examples(batch: Batch) -> int:
    """The number of examples in a batch: the length of the first tensor among its targets."""
    sizes = [len(leaf) for leaf in pytree.tree_leaves(batch[1]) if isinstance(leaf, Tensor) and leaf.ndim]
    if not sizes:
        raise InputsError(
            "the targets hold no tensor with one entry per example, so they cannot be shuffled; pass targets='given'."
        )
    return sizes[0]


def shuffled(batches: Sequence[Batch], seed: int) -> list[Batch]:
    """The same inputs with the targets of other examples.

    >>> batches = [(torch.zeros(2), torch.tensor([0, 1])), (torch.ones(2), torch.tensor([2, 3]))]
    >>> mixed = shuffled(batches, seed=1)
    >>> sorted(torch.cat([targets for _, targets in mixed]).tolist())
    [0, 1, 2, 3]

    Args:
        batches: all of the task. Targets move between batches if their shapes allow it, otherwise within each batch.
        seed: of the permutation.

    Raises:
        InputsError: all targets are equal, so that shuffling them makes no new task.
    """
    generator = Generator().manual_seed(seed)
    sizes = [examples(batch) for batch in batches]
    flat = [pytree.tree_flatten(targets) for _, targets in batches]
    columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
    whole = all(len({leaf.shape[1:] for leaf in column}) == 1 for column in columns if isinstance(column[0], Tensor))
    groups = [list(range(len(batches)))] if whole else [[index] for index in range(len(batches))]
    changed, moved = False, [list(leaves) for leaves, _ in flat]
    for group in groups:
        order = torch.randperm(sum(sizes[index] for index in group), generator=generator)
        for column, leaves in enumerate(columns):
            if not isinstance(leaves[0], Tensor) or not leaves[0].ndim:
                continue
            before = torch.cat([leaves[index] for index in group])
            after = before[order.to(before.device)]
            changed |= not torch.equal(before, after)
            for index, part in zip(group, after.split([sizes[index] for index in group]), strict=True):
                moved[index][column] = part
    if not changed:
        raise InputsError("all targets are equal, so shuffling them makes no new task; pass batches of a new task.")
    return [
        (inputs, pytree.tree_unflatten(leaves, spec))
        for (inputs, _), leaves, (_, spec) in zip(batches, moved, flat, strict=True)
    ]


def in_order(count: int, steps: int, seed: int) -> list[int]:
    """Which batch each step sees: all of them in a random order, then in another one, and so on."""
    generator = Generator().manual_seed(seed)
    order: list[int] = []
    while len(order) < steps:
        order += torch.randperm(count, generator=generator).tolist()
    return order[:steps]
