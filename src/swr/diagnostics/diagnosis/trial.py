"""Train one network for some steps and record its loss, without a trace in the global state."""

from __future__ import annotations

import contextlib
import copy
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.diagnostics.diagnosis.new_task import Batch, in_order
from swr.diagnostics.gradients import LossFunction, saved_weights, update_ratios
from swr.probe import as_args

OptimizerFactory = Callable[[Iterable[Tensor], float], Optimizer]
"""a function of parameters and a learning rate"""

UPDATES = 10
"""how many steps of a trial have their update ratios measured"""
LAST = 0.1
"""the share of a trial's steps whose mean loss is its result"""


@dataclass(frozen=True)
class Curve:
    """The course of one trial.

    Attributes:
        losses: the loss of every step, before it; not finite from the step on at which the training diverged.
        updates: the mean update ratio of every layer, over some steps at equal distances.
    """

    losses: tuple[float, ...]
    updates: dict[str, float]

    @property
    def result(self) -> float:
        """The mean loss of the last tenth of the steps; infinite if the training diverged."""
        count = max(1, round(LAST * len(self.losses)))
        mean = sum(self.losses[-count:]) / count
        return mean if math.isfinite(mean) else math.inf


def adam(parameters: Iterable[Tensor], lr: float) -> Optimizer:
    """Adam with PyTorch's defaults."""
    given = list(parameters)
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in given)
    return torch.optim.Adam(given, lr=lr, fused=fused)


def train(
    network: nn.Module,
    batches: Sequence[Batch],
    loss_fn: LossFunction,
    optimizer: OptimizerFactory,
    *,
    lr: float,
    steps: int,
    seed: int,
    tick: Callable[[], None],
) -> Curve:
    """Train a copy of a network with a new optimizer.

    Args:
        network: it is left as it was; parameters that do not require a gradient stay frozen in the copy.
        batches: the task.
        loss_fn: a function of outputs and targets.
        optimizer: makes the optimizer.
        lr: the learning rate.
        steps: how many.
        seed: of the order of the batches and of dropout; the same for every network that is compared.
        tick: called after every step.
    """
    with seeded(seed, network), torch.enable_grad():
        model = copy.deepcopy(network).train()
        stepper = optimizer([p for p in model.parameters() if p.requires_grad], lr)
        losses: list[Tensor] = []
        ratios: list[dict[str, float]] = []
        measured = {steps * i // UPDATES for i in range(UPDATES)}
        for step, index in enumerate(in_order(len(batches), steps, seed)):
            inputs, targets = batches[index]
            loss = loss_fn(model(*as_args(inputs)), targets)
            stepper.zero_grad()
            loss.backward()
            before = saved_weights(model) if step in measured else {}
            stepper.step()
            if before:
                ratios.append(update_ratios(model, before))
            losses.append(loss.detach())
            tick()
        values = torch.stack(losses).double().tolist()
    names = [name for name in ratios[0] if all(name in each for each in ratios)]
    return Curve(tuple(values), {name: sum(each[name] for each in ratios) / len(ratios) for name in names})


@contextlib.contextmanager
def seeded(seed: int, model: nn.Module) -> Iterator[None]:
    """Random numbers of torch, Python and (if it is loaded) NumPy from a seed inside; afterwards their states are restored."""
    cuda = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    numpy = sys.modules.get("numpy")
    python = random.getstate()
    array = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seed)
            random.seed(seed)
            if numpy:
                numpy.random.seed(seed)
            yield
    finally:
        random.setstate(python)
        if numpy and array is not None:
            numpy.random.set_state(array)
