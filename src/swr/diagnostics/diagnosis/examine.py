"""Train the trained network and fresh ones on the same new batches, and compare."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import nn

from swr.checks import choice, positive, whole
from swr.diagnostics.curvature import curvature
from swr.diagnostics.diagnosis.advice import PERTURB, advise
from swr.diagnostics.diagnosis.layer_table import layers_of, mixed, table, transplanted, with_recoveries
from swr.diagnostics.diagnosis.new_task import Batch, Targets, Task, collect, has_classes, relabelled, shuffled, shuffled_pool
from swr.diagnostics.diagnosis.record import Diagnosis, points, sentence
from swr.diagnostics.diagnosis.trial import Curve, OptimizerFactory, adam, seeded, train
from swr.diagnostics.diagnosis.verdict import Comparison, compare
from swr.diagnostics.gradients import LossFunction
from swr.errors import InputsError, ModelError, OptionError
from swr.probe import as_args, undisturbed

Progress = Callable[[int, int], None]
"""a function of the steps done so far and of all steps; the second grows if the layers are examined too"""

KNOWN = 0.9
"""a loss below this share of a fresh network's before any training means that the batches are known"""


def diagnose(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: LossFunction,
    *,
    fresh: Callable[[], nn.Module],
    steps: int = 500,
    seeds: int = 5,
    lr: float | Sequence[float] = (1e-3, 3e-3),
    optimizer: OptimizerFactory = adam,
    targets: Targets = "auto",
    locate: bool = True,
    progress: Progress | None = None,
) -> Diagnosis:
    """Find out whether a trained network has lost plasticity, in which layer, and what to try.

    Copies of the trained network and fresh networks train on the same batches in the same order, each with a new optimizer,
    and their losses are compared in pairs; pair s has a fresh network, an order and a task of its own. Every network is judged
    at the learning rate that is best for it. If the trained network stays behind, its layers are re-initialised one at a time,
    with the parameters of the pair's fresh network, and trained again: what closes the gap is where it comes from.

    >>> found = diagnose(model, [(torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,)))], nn.functional.cross_entropy,
    ...                  fresh=lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)), steps=60)
    >>> found.verdict
    'none'

    Args:
        model: the trained network, plain (not wrapped). Parameters, buffers, gradients and modes are left as they were, and so
            are all random states. Its copies train in training mode; frozen parameters stay frozen.
        batches: pairs of inputs (a tensor, or a tuple of positional inputs) and targets; at most ``steps`` are read and kept in
            memory, and repeated in another order if there are fewer.
        loss_fn: a function of outputs and targets that returns the mean loss.
        fresh: makes an untrained network of the same architecture; called once for each pair, under its seed.
        steps: how long each network trains.
        seeds: the number of pairs, at least 2.
        lr: one learning rate or several.
        optimizer: a function of parameters and a learning rate; Adam by default.
        targets: ``"given"`` trains on the batches as they are, which should be new to the network; ``"relabelled"`` with other
            labels for the classes, a related task; ``"shuffled"`` on a few of them with targets shuffled over the examples, an
            unrelated task and the harder question. ``"auto"`` takes the batches as given, unless the network does better on
            them than fresh ones before any training: then it knows them, and they are relabelled (shuffled, if the targets are
            not classes).
        locate: whether to re-initialise one layer at a time if the network is behind; costs ``seeds`` trainings for each layer.
        progress: called after every step with the steps done and the steps in all.

    Raises:
        InputsError: the batches cannot be used.
        ModelError: ``fresh`` makes another architecture.
        OptionError: an option is out of its range.
    """
    steps, seeds = whole(steps, "steps", 20), whole(seeds, "seeds", 2)
    rates = [positive(one, "lr", infinite=False) for one in (lr if isinstance(lr, Sequence) else [lr])]
    if not rates:
        raise OptionError("lr is empty: give at least one learning rate.")
    choice(targets, "targets", ("auto", "given", "relabelled", "shuffled"))
    if not any(p.requires_grad for p in model.parameters()):
        raise ModelError(f"{type(model).__name__} has no parameter that requires a gradient, so it cannot learn anything.")
    device = next(model.parameters()).device
    with seeded(0, model):
        pool = collect(batches, steps, device)
        others = [_fresh(fresh, seed, model, device) for seed in range(seeds)]
        _check(model, pool[0], loss_fn)
        known = _known(model, others, pool, loss_fn)
        task = _task(targets, known, pool)
        if task == "shuffled":
            pool = shuffled_pool(pool, steps)
        make = {"given": lambda pool, seed: pool, "relabelled": relabelled, "shuffled": shuffled}[task]
        tasks = [make(pool, seed) for seed in range(seeds)]
        trials = _Trials(tasks, loss_fn, optimizer, steps, progress)
        trials.expect(2 * len(rates) * seeds)
        ours = {one: trials.of([model] * seeds, one) for one in rates}
        theirs = {one: trials.of(others, one) for one in rates}
        comparison = compare(ours, theirs)
        layers = table(model, others, tasks[0][0], loss_fn, comparison.trained, comparison.fresh)
        perturbed = None
        if locate and comparison.verdict in ("some", "lost") and math.isfinite(comparison.gap.mean):
            recoveries, perturbed = _locate(model, others, comparison, trials)
            layers = with_recoveries(layers, recoveries)
        curvatures = _curvatures(model, others[0], tasks[0][0], loss_fn)
    notes = _notes(model, others, known, targets, task)
    if isinstance(curvatures, str):
        notes.append(curvatures)
    nats = loss_fn is F.cross_entropy or isinstance(loss_fn, nn.CrossEntropyLoss)
    return Diagnosis(
        verdict=comparison.verdict,
        sentence=sentence(comparison, layers, steps, task, nats),
        targets=task,
        steps=steps,
        examined=sum(p.numel() for p in model.parameters()),
        batches=len(pool),
        unit="nats" if nats else "",
        comparison=comparison,
        layers=layers,
        perturbed=perturbed,
        curvature=None if isinstance(curvatures, str) else curvatures,
        trained=points(comparison.trained),
        fresh=points(comparison.fresh),
        advice=advise(comparison.verdict, layers, perturbed),
        notes=tuple(notes),
    )


@dataclass
class _Trials:
    """Trains networks on the tasks of the pairs, and counts the steps."""

    tasks: Sequence[Sequence[Batch]]
    loss_fn: LossFunction
    optimizer: OptimizerFactory
    steps: int
    progress: Progress | None
    done: int = 0
    total: int = 0

    def expect(self, trainings: int) -> None:
        """So many more trainings will follow."""
        self.total += trainings * self.steps

    def of(self, networks: Iterable[nn.Module], lr: float) -> list[Curve]:
        """One training per pair."""
        return [
            train(network, task, self.loss_fn, self.optimizer, lr=lr, steps=self.steps, seed=seed, tick=self._tick)
            for seed, (network, task) in enumerate(zip(networks, self.tasks, strict=True))
        ]

    def _tick(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


def _fresh(factory: Callable[[], nn.Module], seed: int, model: nn.Module, device: torch.device) -> nn.Module:
    """An untrained network; a copy, in case the factory hands out one and the same each time."""
    with seeded(seed, model):
        made = factory()
    if not isinstance(made, nn.Module):
        raise ModelError(f"fresh must make a torch.nn.Module, found {type(made).__name__}.")
    found = copy.deepcopy(made).to(device)
    ours = {name: tuple(p.shape) for name, p in model.named_parameters()}
    others = {name: tuple(p.shape) for name, p in found.named_parameters()}
    if ours != others:
        name = next(name for name in [*ours, *others] if ours.get(name) != others.get(name))
        raise ModelError(
            f"fresh makes another architecture than the model's: {name} has the shape {_shape(ours, name)} in the model "
            f"and {_shape(others, name)} in a fresh network."
        )
    for name, p in found.named_parameters():
        p.data = p.data.to(model.get_parameter(name).dtype)
    return found


def _shape(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    return str(shapes[name]) if name in shapes else "none (it is missing)"


def _check(model: nn.Module, batch: Batch, loss_fn: LossFunction) -> None:
    """The loss of the model on a batch is one number."""
    try:
        loss = _loss(model, batch, loss_fn)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise InputsError(
            f"the loss of the first batch could not be computed ({type(error).__name__}: {reason}): "
            "check the inputs, the targets and the loss function."
        ) from error
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise InputsError("the loss function must return one number, the mean over the batch.")


def _loss(model: nn.Module, batch: Batch, loss_fn: LossFunction) -> torch.Tensor:
    with undisturbed(model), torch.no_grad():
        return loss_fn(model(*as_args(batch[0])), batch[1])


def _known(model: nn.Module, others: Sequence[nn.Module], pool: Sequence[Batch], loss_fn: LossFunction) -> bool:
    """Whether the network does better than fresh ones on the batches before any training."""
    shown = pool[:20]
    ours = fmean(float(_loss(model, batch, loss_fn)) for batch in shown)
    theirs = fmean(float(_loss(other, batch, loss_fn)) for other in others[:3] for batch in shown)
    return ours < theirs - (1 - KNOWN) * abs(theirs)


def _task(targets: Targets, known: bool, pool: Sequence[Batch]) -> Task:
    if targets != "auto":
        return targets
    return "given" if not known else "relabelled" if has_classes(pool) else "shuffled"


def _locate(
    model: nn.Module, others: Sequence[nn.Module], found: Comparison, trials: _Trials
) -> tuple[dict[str, float], float]:
    """The share of the gap that closes if one layer is re-initialised, by weight; and after shrink and perturb."""
    owners: dict[str, list[str]] = {}
    for weight in layers_of(model):
        owners.setdefault(weight.rpartition(".")[0], []).append(weight)
    trials.expect((len(owners) + 1) * len(others))
    late = found.verdict == "some" and not found.behind
    recoveries = {}
    for weights in owners.values():
        arm = trials.of((transplanted(model, other, weights[0]) for other in others), found.lr_fresh)
        recoveries.update(dict.fromkeys(weights, _closed(found, arm, late)))
    arm = trials.of((mixed(model, other, PERTURB) for other in others), found.lr_fresh)
    return recoveries, _closed(found, arm, late)


def _closed(found: Comparison, arm: Sequence[Curve], late: bool) -> float:
    """The share of the gap (of the delay, if the network is only late) that is gone."""
    after = compare({found.lr_fresh: arm}, {found.lr_fresh: found.fresh})
    if late:
        return 1 - after.slowdown.mean / found.slowdown.mean
    return 1 - after.gap.mean / found.gap.mean if math.isfinite(after.gap.mean) else 0.0


def _curvatures(model: nn.Module, other: nn.Module, batch: Batch, loss_fn: LossFunction) -> tuple[float, float] | str:
    """The largest eigenvalue of the Hessian for the trained and a fresh network; or why there is none."""
    try:
        return curvature(model, batch, loss_fn, iterations=20), curvature(other, batch, loss_fn, iterations=20)
    except RuntimeError as error:  # an operator without a second derivative
        return f"the curvature could not be computed: {str(error).splitlines()[0]}"


def _notes(model: nn.Module, others: Sequence[nn.Module], known: bool, targets: Targets, task: Task) -> list[str]:
    notes = []
    if known and targets == "auto":
        how = "their classes were relabelled" if task == "relabelled" else "their targets were shuffled over the examples"
        notes.append(
            f"before any training the network already does better on these batches than a fresh one, so {how}; pass batches "
            "of your next task, or targets='given', to train on targets as they are"
        )
    if task == "shuffled":
        notes.append(
            "with shuffled targets nothing that was learned is of use: networks that fit their data well are often behind here "
            "and not on a related task"
        )
    if known and targets == "given":
        notes.append(
            "before any training the network already does better on these batches than a fresh one: it has a head start"
        )
    first, second = (list(other.parameters()) for other in others[:2])
    if all(torch.equal(a, b) for a, b in zip(first, second, strict=True)):
        notes.append("the factory makes the same network each time, so the interval leaves out the luck of initialisation")
    if frozen := sum(not p.requires_grad for p in model.parameters()):
        notes.append(f"{frozen} of the trained network's parameter tensors are frozen, and stayed so")
    return notes
