"""The loop: stages x epochs x steps, metrics once an epoch, exact resume.

Adam with its default settings, fused; one optimizer for the whole run, whose state is kept from stage to stage (a method may
clear what it resets). Nothing in an epoch waits for the device: losses and outputs stay tensors until its end.

Everything random comes from the configuration's seed, with separate generators for the initial parameters, the chunks, the
batches and the method, so that runs of one seed differ in their method only. On a CPU results are bit-identical for the same
number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from swr import methods
from swr.bench.data import Dataset, load
from swr.bench.experiments import AT_START, RunConfig, experiments, find_column
from swr.bench.experiments.material import Material, prepare
from swr.bench.experiments.models import build
from swr.bench.experiments.seeds import generator, seed_of
from swr.bench.experiments.task import Task, View
from swr.bench.training import checkpoint as checkpoints
from swr.bench.training.checkpoint import CheckpointError
from swr.bench.training.epoch import Epoch
from swr.bench.training.feed import Feed
from swr.bench.training.first_stage import offer, take
from swr.bench.training.online import Online
from swr.bench.training.process import flushed_denormals
from swr.bench.training.schedule import lr_at
from swr.methods.bases.decay import Decay
from swr.methods.tools.layers import convolutions, weights
from swr.norms import frobenius_norms

if TYPE_CHECKING:
    from swr.bench.training.agents import ControlTraining  # imported when it is needed, and gymnasium with it

EVALUATION_BATCH = 1024


def run(
    config: RunConfig,
    checkpoint: Path,
    *,
    data: Path | Dataset | None = None,
    device: str = "cpu",
    every: float = 30.0,
    first_stage: Path | None = None,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train as configured and return every epoch; if the checkpoint exists, continue from it exactly.

    >>> epochs = run(config, Path("run.pt"))

    Args:
        checkpoint: A file, written at the end of epochs. It is not removed at the end; the caller does that.
        data: Folder with the official files of the datasets, or the run's dataset itself.
        device: Of torch, one for which Adam can be fused (``cpu``, ``cuda``).
        every: Seconds between two checkpoints; more if writing one takes over a twentieth of that. 0: after each epoch.
        first_stage: A file in which runs that begin alike keep the end of their first stage (:attr:`RunConfig.first_stage`): a
            run without a checkpoint continues from there, one that gets there first writes it. The caller removes it.
        report: Called with every epoch, those in the checkpoint first. If it raises, the checkpoint is brought up to date.
    """
    dataset = data if isinstance(data, Dataset) else load(find_column(config.column).dataset, data)
    cuda = [torch.device(device)] if torch.device(device).type == "cuda" else []
    with flushed_denormals(), torch.random.fork_rng(devices=cuda):
        training = trainer(config, dataset, device)
        epochs = _resume(training, config, checkpoint)
        shared = None if config.first_stage is None else first_stage
        if shared is not None:
            epochs = epochs or take(shared, training, config, device)
            offer(shared, training, config, device, epochs)
        for epoch in epochs:
            report(epoch)
        written, cost = time.monotonic(), 0.0
        while len(epochs) < config.total:
            epochs.append(training.epoch())
            if shared is not None:
                offer(shared, training, config, device, epochs)
            last = len(epochs) == config.total
            saved = last or time.monotonic() - written >= max(every, 20 * cost if every else 0.0)
            if saved:
                begin = time.monotonic()
                _save(training, config, checkpoint, epochs)
                written = time.monotonic()
                cost = written - begin
            try:
                report(epochs[-1])
            except BaseException:
                if not saved:
                    _save(training, config, checkpoint, epochs)
                raise
    return epochs


def trainer(config: RunConfig, dataset: Dataset, device: str = "cpu") -> Training | ControlTraining:
    """What trains this run: on a dataset, or an agent in environments."""
    if config.setting.interactive:
        from swr.bench.training.agents import ControlTraining

        return ControlTraining(config, dataset, device)
    return Training(config, dataset, device)


class Training:
    """A model, its optimizer, its method and its data, moved forward one epoch at a time.

    Seeds torch's global random numbers, which initialisers and dropout draw from.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, device: str = "cpu") -> None:
        if config.inputs == "raw":
            channels = len(dataset.mean)
            dataset = replace(dataset, mean=(0.0,) * channels, std=(1.0,) * channels)
        self.config = config
        self.device = torch.device(device)
        self.material: Material = prepare(config, dataset)
        torch.manual_seed(seed_of(config.seed, "parameters"))
        images = self.material.train.images
        shape = (images.shape[1], images.shape[2], images.shape[3])
        self.model = build(find_column(config.column).model, shape, dataset.classes).to(self.device)
        layout = bool(convolutions(self.model))
        self.train = Feed(self.material.train, dataset, self.device, channels_last=layout)
        self.test = Feed(self.material.test, dataset, self.device, channels_last=layout)
        held_out = self.material.validation
        self.validation = None if held_out is None else Feed(held_out, dataset, self.device, channels_last=layout)
        self.batches = generator(config.seed, "batches")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr, fused=True)
        example, _ = self.train.batch(torch.arange(min(2, len(self.train)), device=self.device))
        self.method = methods.build(
            config.method, self.model, example, seed=seed_of(config.seed, "method"), **dict(config.hyper)
        )
        # autograd differentiates a penalty together with the loss, in one backward pass; L2's gradient is known, and is only
        # needed before the step if the gradient of both together is clipped
        self._penalty_in_loss = any(
            type(part).penalty is not methods.Method.penalty and not (isinstance(part, Decay) and config.clip is None)
            for part in methods.parts_of(self.method)
        )
        if self._penalty_in_loss:
            self.method.attach(self.optimizer, penalty="loss")
        else:
            self.method.attach(self.optimizer)
        self.done = 0
        """epochs trained so far"""
        self.scenario = config.setting
        self.task = Task()
        """what the current stage shows"""
        self.online = Online(self.scenario, len(self.material.stages)) if self.scenario.metric.online else None
        self._loss = F.mse_loss if self.scenario.regression else F.cross_entropy
        self._experiment = experiments().get(config.experiment)
        self._classes, self._shown = dataset.classes, -1
        self._weights = weights(self.model)
        steps = ([-(-len(stage.indices) // config.batch_size)] * stage.epochs for stage in self.material.stages)
        self._steps = list(accumulate(chain.from_iterable(steps), initial=0))  # before each epoch, and in the end
        torch.manual_seed(seed_of(config.seed, "training"))

    def epoch(self) -> Epoch:
        """Train one epoch and measure."""
        begin = time.perf_counter()
        number = self.done + 1
        index, first = self._stage(number)
        self.show(index)
        at_start = None
        if first and index > 0:
            loss_fn = self._loss if self.task.train.hidden is None else self.loss
            self.method.new_task(_StageBatches(self, index), loss_fn)
            at_start = self.accuracy(self.test) if self.task.tested is None else None
        loss, accuracy = self.pass_over(self.material.stages[index].indices, self._rates(number))
        test = self.accuracy(self.test, self.task.test, self.task.tested)
        validation = None if self.validation is None else self.accuracy(self.validation)
        norms = frobenius_norms([p.detach() for p in self._weights.values()]).tolist()
        measures = {} if at_start is None else {AT_START: float(at_start)}
        measures |= self._experiment.measure(self.model) if self._experiment else {}
        if self.online is not None:
            self.online.add(index, float(loss if self.scenario.metric.field == "train_loss" else accuracy))
            measures |= self.online.measures()
        self.done = number
        return Epoch(
            epoch=number,
            stage=index,
            total=self.config.total,
            train_loss=float(loss),
            train_accuracy=float(accuracy),
            test_accuracy=float(test),
            validation_accuracy=None if validation is None else float(validation),
            norms=dict(zip(self._weights, norms, strict=True)),
            seconds=time.perf_counter() - begin,
            measures=measures,
        )

    def show(self, stage: int) -> None:
        """Turn to what a stage shows, if that is not shown yet."""
        if stage != self._shown:
            found = self.scenario.task(self.config, stage, self.material.train, self.material.test, self._classes)
            self.task, self._shown = found.to(self.device), stage

    def pass_over(self, indices: Tensor, rates: Iterable[float] | None = None) -> tuple[Tensor, Tensor]:
        """Train on these examples once, in a random order; returns mean loss and accuracy, still on the device.

        Args:
            rates: The learning rate of each step; None: that of the configuration.
        """
        model, optimizer, method, view = self.model, self.optimizer, self.method, self.task.train
        loss_fn = self._loss
        parameters = list(model.parameters())
        order = indices.index_select(0, torch.randperm(len(indices), generator=self.batches))
        order = order.to(self.device, non_blocking=True)
        count = _Count(answers=not self.scenario.regression)
        model.train()
        batches, now = torch.split(order, self.config.batch_size), None
        for index, rate in zip(batches, repeat(self.config.lr, len(batches)) if rates is None else rates, strict=True):
            if rate != now:
                now = rate
                for group in optimizer.param_groups:
                    group["lr"] = rate
            inputs, labels = view.batch(self.train, index, reuse=True)
            outputs = view.outputs(self.forward(inputs))
            loss = loss_fn(outputs, labels)
            count.add(outputs, labels, loss)
            penalty = method.penalty() if self._penalty_in_loss else None
            if penalty is not None:
                loss = loss + penalty
            for p in parameters:  # what zero_grad does, without its bookkeeping
                p.grad = None
            loss.backward()
            if self.config.clip is not None:
                clip_grad_norm_(parameters, self.config.clip, foreach=True)
            optimizer.step()
        return count.means()

    def forward(self, inputs: Tensor) -> Tensor:
        """The network's outputs, in float32, computed in the precision of the configuration."""
        if self.config.precision == "float32":
            outputs: Tensor = self.model(inputs)
            return outputs
        with torch.autocast(self.device.type, torch.bfloat16):
            outputs = self.model(inputs)
        return outputs.float()

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of the model's outputs in the current task."""
        return self._loss(self.task.train.outputs(outputs), labels)

    @torch.inference_mode()
    def accuracy(self, feed: Feed, view: View | None = None, index: Tensor | None = None) -> Tensor:
        """The part of the labels that the model gets right, still on the device.

        Args:
            view: How the examples are shown.
            index: Which of them are shown so; without any the accuracy is not-a-number.
        """
        self.model.eval()
        correct = torch.zeros((), dtype=torch.float64, device=self.device)
        if view is None or index is None:
            for inputs, labels in feed.chunks(EVALUATION_BATCH):
                correct += (self.forward(inputs).argmax(1) == labels).sum()
            return correct / len(feed)
        for part in torch.split(index, EVALUATION_BATCH) if len(index) else ():
            inputs, labels = view.batch(feed, part)
            correct += (view.outputs(self.forward(inputs)).argmax(1) == labels).sum()
        return correct / len(index)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next epoch depends on."""
        cuda = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        return {
            "done": self.done,
            "online": None if self.online is None else self.online.state_dict(),
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "method": self.method.state_dict(),
            "batches": self.batches.get_state(),
            "random": torch.get_rng_state(),
            "random_cuda": cuda,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.method.load_state_dict(state["method"])
        self.batches.set_state(state["batches"])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda" and state["random_cuda"] is not None:
            torch.cuda.set_rng_state(state["random_cuda"], self.device)
        self.done = int(state["done"])
        if self.online is not None:  # older checkpoints of other scenarios do not have this entry
            self.online.load_state_dict(state["online"])

    def _rates(self, number: int) -> list[float]:
        """The learning rate of each step of an epoch."""
        steps = range(self._steps[number - 1], self._steps[number])
        return [lr_at(self.config, number, step, self._steps[-1]) for step in steps]

    def _stage(self, number: int) -> tuple[int, bool]:
        """The stage of an epoch, and whether it is the stage's first."""
        end = 0
        for index, stage in enumerate(self.material.stages):
            start, end = end, end + stage.epochs
            if number <= end:
                return index, number == start + 1
        raise IndexError(f"epoch {number} of {end}")


class _Count:
    """Losses and correct answers of an epoch; answers are counted for many batches at a time, which costs less."""

    TOGETHER = 32

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._losses: list[Tensor] = []
        self._sizes: list[int] = []
        self._outputs: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._correct: list[Tensor] = []

    def add(self, outputs: Tensor, labels: Tensor, loss: Tensor) -> None:
        """One batch."""
        self._losses.append(loss.detach())
        self._sizes.append(len(labels))
        if not self._answers:
            return
        self._outputs.append(outputs.detach())
        self._labels.append(labels)
        if len(self._outputs) == self.TOGETHER:
            self._compare()

    def means(self) -> tuple[Tensor, Tensor]:
        """Loss and accuracy over all examples; in a regression the latter is not-a-number."""
        if self._outputs:
            self._compare()
        losses = torch.stack(self._losses).double()
        sizes = torch.tensor(self._sizes, dtype=torch.float64).to(losses.device, non_blocking=True)
        correct = torch.stack(self._correct).sum() if self._answers else torch.full((), torch.nan)
        return (losses * sizes).sum() / sizes.sum(), correct / sizes.sum()

    def _compare(self) -> None:
        self._correct.append((torch.cat(self._outputs).argmax(1) == torch.cat(self._labels)).sum())
        self._outputs, self._labels = [], []


class _StageBatches:
    """A stage's data in order, for methods that need it; can be iterated more than once."""

    def __init__(self, training: Training, stage: int) -> None:
        self._training, self._indices = training, training.material.stages[stage].indices

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for index in torch.split(self._indices.to(self._training.device), self._training.config.batch_size):
            yield self._training.task.train.batch(self._training.train, index)


def _resume(training: Training | ControlTraining, config: RunConfig, path: Path) -> list[Epoch]:
    state = checkpoints.read(path)
    if state is None:
        return []
    if state.get("identity") != config.identity:
        raise CheckpointError(
            f"the checkpoint {path} belongs to another run ({state.get('identity')}, this is {config.identity}): "
            "move it away, or give this run another file."
        )
    training.load_state_dict(state["training"])
    return [Epoch(**row) for row in state["epochs"]]


def _save(training: Training | ControlTraining, config: RunConfig, path: Path, epochs: list[Epoch]) -> None:
    rows = [asdict(epoch) for epoch in epochs]
    checkpoints.write(path, {"identity": config.identity, "training": training.state_dict(), "epochs": rows})
