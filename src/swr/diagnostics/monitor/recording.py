"""Record measures of a network during training: at every n-th real step, in memory, a CSV file or TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.diagnostics.gradients import LossFunction
from swr.diagnostics.layer_norms import layer_norms
from swr.diagnostics.monitor.measures import CHEAP, Measure, MeasureName, UserMeasure, View, build
from swr.diagnostics.monitor.sinks import CsvFile, Row, sink_of
from swr.errors import OptionError, StateError
from swr.hooks import Around, Handle, attachable
from swr.rescaling import SoftWeightRescaling

Name = MeasureName | UserMeasure


class Monitor:
    """Record measures of a network every n real optimizer steps; the training stays bit-identical.

    >>> rescaler = SoftWeightRescaling(model, x)
    >>> handle = rescaler.attach(optimizer)
    >>> monitor = Monitor(model, anchors=rescaler, inputs=x, measures={"norm": 1, "limit": 1, "dormant": 2}, to="run.csv")
    >>> handle = monitor.attach(optimizer)
    >>> for _ in range(2):
    ...     model(x).sum().backward()
    ...     optimizer.step()
    >>> [row["step"] for row in monitor.rows]
    [0, 1, 2]
    >>> monitor.rows[-1]["norm/0.weight"] < monitor.rows[-1]["limit/0.weight"]
    True

    :mod:`swr.diagnostics.monitor.measures` lists the measures, their values and the data that they need. Measures that run the
    network do so in evaluation mode and leave modes, gradients, buffers and random numbers as they were. The default costs well
    below 2 % of the training time of the paper's MLP and CNN. Curvature, Lipschitz bound and ranks each cost the time of many
    steps, so give them a longer interval. Step 0 is recorded when the monitor is attached.

    Args:
        model: the plain model, not a wrapper such as DDP.
        every: n, the interval of measures that have none of their own.
        measures: one or several names, or functions of the model that return a number or a mapping of numbers, such as
            :func:`~swr.diagnostics.balancedness`; or a mapping from these to intervals. By default, the measures that need no
            data: norm, ratio, balance, gradient, update, and with a rescaler limit.
        anchors: a rescaler, or norms saved with :func:`~swr.diagnostics.layer_norms`; by default the current norms.
        inputs: a tensor or a tuple of positional inputs, for measures that run the network.
        batch: inputs and targets, for measures that need the loss; without ``inputs``, its inputs are used for the others too.
        loss_fn: a function of outputs and targets that returns the mean loss.
        to: a path (CSV), a ``SummaryWriter``, a function of a row, or a list of these; rows are always kept in memory too.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 100,
        measures: MeasureName | Iterable[Name] | Mapping[Name, int] | None = None,
        anchors: SoftWeightRescaling | Mapping[str, float] | None = None,
        inputs: Any = None,
        batch: tuple[Any, Any] | None = None,
        loss_fn: LossFunction | None = None,
        to: Any = None,
    ) -> None:
        rescaler = anchors if isinstance(anchors, SoftWeightRescaling) else None
        if measures is None:
            measures = (*CHEAP, "limit") if rescaler is not None else CHEAP
        intervals = dict(measures) if isinstance(measures, Mapping) else dict.fromkeys(_names(measures), every)
        for n in (every, *intervals.values()):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise OptionError(f"every must be a whole number of steps, at least 1, found {n!r}.")
        self.model = model
        self.rows: list[Row] = []
        self.steps = 0
        """real steps of the optimizer so far"""
        self._view = View(
            model,
            start=dict(anchors) if isinstance(anchors, Mapping) else layer_norms(model),
            rescaler=rescaler,
            inputs=batch[0] if inputs is None and batch is not None else inputs,
            batch=batch,
            loss_fn=loss_fn,
        )
        self._measures = [(_key(name), build(name, self._view), n) for name, n in intervals.items()]
        self._sinks = [sink_of(one) for one in (to if isinstance(to, (list, tuple)) else [] if to is None else [to])]
        self._due: list[Measure] = []
        self._unsure: list[Tensor] = []
        self._handle: _Around | None = None

    def attach(self, optimizer: Optimizer) -> Handle:
        """Record every n-th real step of this optimizer.

        Args:
            optimizer: one that holds parameters of the model; Accelerate's wrapper is unwrapped.

        Returns:
            The handle; its ``remove()`` detaches the monitor.

        Raises:
            AttachError: the monitor is already attached, or the optimizer holds none of the model's parameters.
        """
        optimizer = attachable(optimizer, self.model, self._handle)
        self._handle = _Around(optimizer, self._before_step, self._between, self._after_step)
        if self.steps == 0 and not self.rows:
            self.record()
        return self._handle

    def record(self) -> Row:
        """Measure and record now, outside of a step: all measures that are not about a step."""
        return self._record([measure for _, measure, _ in self._measures if not measure.stepped])

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, the norms at the start, and the state of the measures. Rows are results, not state."""
        return {
            "steps": self._settled(),
            "start": dict(self._view.start),
            "measures": {key: measure.state() for key, measure, _ in self._measures if measure.state() is not None},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken: rows of later steps are dropped, since these steps run again."""
        if not isinstance(state, Mapping) or set(state) != {"steps", "start", "measures"}:
            found = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"this is not the state of a Monitor: found {found or 'nothing'}.")
        if other := sorted(set(state["start"]) ^ set(self._view.start)):
            raise StateError(f"the state belongs to another model: the weight {other[0]!r} is in only one of them.")
        self.steps = int(state["steps"])
        self._unsure = []
        self._view.start = dict(state["start"])
        for key, measure, _ in self._measures:
            if key in state["measures"]:
                measure.load(state["measures"][key])
        self.rows = [row for row in self.rows if row["step"] <= self.steps]
        for sink in self._sinks:
            if isinstance(sink, CsvFile):
                sink.forget_after(self.steps)

    def _before_step(self, optimizer: Optimizer) -> None:
        self.steps += 1
        found_inf = getattr(optimizer, "found_inf", None)
        if found_inf is not None:
            self._unsure.append(found_inf)
        self._due = self._due_now()
        if self._due and self._unsure:  # wait for the device only if a measure is due
            skipped = bool(self._unsure[-1]) if found_inf is not None else False
            self._settled()
            self._due = [] if skipped else self._due_now()
        if self._due:
            assert self._handle is not None
            self._handle.in_order()
            for measure in self._due:
                measure.before()

    def _between(self, optimizer: Optimizer) -> None:
        for measure in self._due:
            measure.between()

    def _after_step(self, optimizer: Optimizer) -> None:
        if self._due:
            due, self._due = self._due, []
            self._record(due)

    def _due_now(self) -> list[Measure]:
        return [measure for _, measure, n in self._measures if self.steps % n == 0]

    def _settled(self) -> int:
        """The number of real steps: under a GradScaler, fused optimizers run hooks on skipped steps too (``found_inf`` > 0)."""
        if self._unsure:
            self.steps -= int(torch.stack([found.detach().reshape(()) for found in self._unsure]).gt(0).sum())
            self._unsure = []
        return self.steps

    def _record(self, measures: list[Measure]) -> Row:
        row: Row = {"step": self._settled()}
        for measure in measures:
            row.update(measure.numbers())
        self.rows.append(row)
        for sink in self._sinks:
            sink(row)
        return row


class _Around(Handle):
    """A handle with a third callback, between the optimizer's own update and the other hooks after it."""

    def __init__(self, optimizer: Optimizer, before: Around, between: Around, after: Around) -> None:
        super().__init__(optimizer, after=after)
        self._last = self._hooks[-1]
        self._first = optimizer.register_step_post_hook(torch.compiler.disable(lambda opt, args, kwargs: between(opt)))
        # Once a step, before any closure runs: ``before`` of a handle is called after each of its evaluations.
        begin = optimizer.register_step_pre_hook(torch.compiler.disable(lambda opt, args, kwargs: before(opt)))
        self._hooks += [self._first, begin]

    def in_order(self) -> None:
        """Put ``between`` first after the step and ``after`` last, also if other hooks were added since."""
        hooks = self._last.hooks_dict_ref()
        if hooks is not None:
            hooks.move_to_end(self._first.id, last=False)
            hooks.move_to_end(self._last.id)


def _names(measures: MeasureName | Iterable[Name]) -> list[Name]:
    return [measures] if isinstance(measures, str) else list(measures)


def _key(name: Name) -> str:
    return name if isinstance(name, str) else name.__name__
