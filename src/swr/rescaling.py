"""Theorem 1 and Algorithm 1 on a plan: :func:`rescale` once, :class:`SoftWeightRescaling` after every step."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.apply import multiply
from swr.algebra.describe import table
from swr.algebra.plan import ScalePlan, analyze
from swr.coefficients import check_coefficients, coefficients_of
from swr.errors import AttachError, OptionError, PlanError, StateError
from swr.hooks import Handle, group_of, unwrapped
from swr.pulls import Pull

_LR_DECAY = ("ignore", "rebase", "follow")


def rescale(model: nn.Module, plan: ScalePlan, scalers: Mapping[str, float]) -> float:
    """Scale a network's weights in place so that its function is only multiplied by a constant (Theorem 1).

        θ = P log c,   p <- exp(θ_p) p for every parameter,   f_θ'(x) = C f_θ(x)

    Free weights get exactly the scaler asked for; coupled ones the nearest that the network allows; held ones stay.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> x = torch.randn(5, 4)
    >>> before = net(x)
    >>> constant = rescale(net, analyze(net, x), {"0.weight": 0.5, "2.weight": 4.0})
    >>> constant, torch.allclose(net(x), constant * before)
    (2.0, True)

    model: the model the plan was made from.
    plan: of :func:`swr.analyze` or :func:`swr.chain`.
    scalers: positive factors by weight name; weights that are not named are asked to stay.

    Returns the constant C.
    """
    plan.check(model)
    if unknown := [name for name in scalers if name not in plan.weights]:
        raise PlanError(f"{unknown[0]!r} is not a weight of the plan; its weights are {', '.join(plan.weights)}.")
    for name, c in scalers.items():
        if not (math.isfinite(c) and c > 0):
            raise OptionError(f"the scaler of {name} must be positive and finite, found {c!r}.")
    targets = torch.tensor([math.log(scalers.get(name, 1.0)) for name in plan.weights], dtype=torch.float64)
    names = plan.scaled
    multiply(model, names, (plan.matrix(names) @ targets).exp())
    return float((plan.output_row @ targets).exp())


class SoftWeightRescaling:
    """Keep a network plastic: after every optimizer step, scale each layer's weights softly back to their initial norm.

        c_l = (λ n_l^init + (1 − λ) ‖W_l‖) / ‖W_l‖,   θ = P log c,   p <- exp(θ_p) p

    Weights are pulled to their anchors n_l^init (Algorithm 1); biases, shifts and running statistics follow, so that
    the network's function is only multiplied by one constant.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> rescaler = SoftWeightRescaling(model, torch.randn(1, 4), coefficient=1e-3)
    >>> handle = rescaler.attach(optimizer)

    model: the model, before it is wrapped; its current norms become the anchors.
    example_inputs: a tensor or a tuple of positional inputs, to trace the model with.
    kwargs: keyword inputs to trace with.
    coefficient: λ in [0, 1]; or a mapping from patterns (fnmatch, first match counts) to λ that covers every weight.
    every: rescale only each n-th step, with 1 − (1 − λ)^n.
    on_lr_decay: "ignore"; "rebase" makes the current norms the anchors whenever the learning rate drops (the paper's
        SWR + re-init, for schedules with a few drops); "follow" scales λ with the learning rate, relative to the
        largest one seen.
    inhomogeneous: "hold" the scale before gelu and friends; "pass" treats them as homogeneous, which is approximate;
        "raise" refuses models with an operator that restricts the scales.
    keep_output: C = 1, for regression and value functions.
    plan: a ready plan instead of example inputs, for example ``swr.chain(model)``.
    """

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        coefficient: float | Mapping[str, float] = 1e-3,
        every: int = 1,
        on_lr_decay: str = "ignore",
        inhomogeneous: str = "hold",
        keep_output: bool = False,
        plan: ScalePlan | None = None,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise OptionError(f"every must be a whole number of steps, at least 1, found {every!r}.")
        if on_lr_decay not in _LR_DECAY:
            raise OptionError(f'on_lr_decay must be "ignore", "rebase" or "follow", found {on_lr_decay!r}.')
        check_coefficients(coefficient)
        if plan is None:
            if example_inputs is None and kwargs is None:
                raise OptionError(
                    "example inputs are needed to trace the model; pass a batch of inputs, or plan=swr.chain(model)."
                )
            inputs = () if example_inputs is None else example_inputs
            plan = analyze(model, inputs, kwargs, inhomogeneous=inhomogeneous)
        elif inhomogeneous != "hold":
            raise OptionError("inhomogeneous belongs to the analysis; pass it to swr.analyze when you bring your own plan.")
        plan.check(model)
        self.plan = plan.keeping_output() if keep_output else plan
        self.model = model
        self.every = every
        self.on_lr_decay = on_lr_decay
        self._names = tuple(name for name in self.plan.weights if self.plan.solution.kind(name) != "held")
        by_name = coefficients_of(coefficient, self.plan)
        self._lambda = torch.tensor([by_name[name] for name in self._names], dtype=torch.float64)
        self._anchors: Tensor | None = None
        self._pulls: list[Pull] = []
        self._loaded: list[dict[str, Any]] = []  # states of pulls whose optimizers are still to be attached
        if not any(p.is_meta for p in model.parameters()):
            self._ready()

    @torch.no_grad()
    def step(self) -> None:
        """Rescale once, as after an optimizer step (each ``every``-th call acts)."""
        self._ready()
        if self.on_lr_decay != "ignore" and all(pull.optimizer is None for pull in self._pulls):
            raise AttachError(
                f'on_lr_decay="{self.on_lr_decay}" watches an optimizer; call attach(optimizer) instead of step().'
            )
        self._loaded = []
        for pull in self._pulls:
            pull.step()

    def rebase(self) -> None:
        """Make the current norms the anchors n_l^init. A weight that is zero now gets none and is left alone."""
        self._ready()
        self._rebase([True] * len(self._names))

    def attach(self, optimizer: Optimizer) -> Handle:
        """Rescale after every real step of this optimizer; ``remove()`` on the returned handle undoes it.

        With several optimizers over one model, attach to each: a weight is pulled after the steps of the optimizers
        that hold it, and one that none holds after those of the first.

        optimizer: one that holds parameters of the model; Accelerate's wrapper is seen through.
        """
        optimizer = unwrapped(optimizer)
        active = [pull for pull in self._pulls if pull.optimizer is not None]
        if any(pull.optimizer is optimizer for pull in active):
            raise AttachError("already attached to this optimizer; call remove() on the first handle before attaching again.")
        if all(group is None for group in group_of(optimizer, list(self.model.parameters()))):
            raise AttachError(
                "the optimizer holds none of this model's parameters; build it from model.parameters() of the same model, "
                "after wrapping (a copied or unpickled optimizer holds copies)."
            )
        self._ready()
        if not active and len(self._pulls) > 1:  # all were detached: each goes on when as many are attached again
            self._loaded = [pull.state() for pull in self._pulls]
        pull = next((pull for pull in self._pulls if pull.optimizer is None), None)
        pull = Pull(self.model, self.plan, self.every) if pull is None else pull
        self._pulls = [*active, pull]
        pull.watch(optimizer)
        before = None if self.on_lr_decay == "ignore" else partial(self._before, pull)
        pull.handle = Handle(optimizer, before=before, after=partial(self._after, pull))
        self._divide()
        return pull.handle

    def norms(self) -> dict[str, float]:
        """The present norm ‖W_l‖ of every weight that is rescaled; waits for the device."""
        return self._by_name([pull.norms() for pull in self._ready()])

    def scalers(self) -> dict[str, float]:
        """The scaler c_l that a rescale would ask for now, by weight; 1 at the anchor, below 1 above it."""
        return self._by_name([pull.scalers() for pull in self._ready()])

    def describe(self) -> str:
        """The plan's table with each weight's coefficient and anchor."""
        notes = {}
        anchors = [math.nan] * len(self._names) if self._anchors is None else self._anchors.tolist()
        for name, coefficient, anchor in zip(self._names, self._lambda.tolist(), anchors, strict=True):
            usable = math.isfinite(anchor) and anchor > 0
            if self._anchors is None:
                notes[name] = f"λ {coefficient:g}, anchor taken when the model is materialised"
                continue
            notes[name] = f"λ {coefficient:g}, " + (
                f"anchor {anchor:.4g}" if usable else "no anchor (its norm was zero or not finite): left alone until rebase()"
            )
        return table(self.plan, notes)

    def state_dict(self) -> dict[str, Any]:
        """Anchors; and for each optimizer the number of steps, what rounding has not applied yet, the learning rates seen."""
        anchors = [] if self._anchors is None else self._anchors.tolist()
        return {
            "anchors": dict(zip(self._names, anchors, strict=False)),
            "optimizers": copy.deepcopy(self._loaded) or [pull.state() for pull in self._pulls],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken; before or after the optimizers are attached."""
        if not isinstance(state, Mapping) or set(state) != {"anchors", "optimizers"}:
            found = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"this is not the state of a SoftWeightRescaling: found {found or 'nothing'}.")
        if other := sorted(set(state["anchors"]) ^ set(self._names)):
            raise StateError(
                f"the state belongs to another model: {other[0]!r} is in only one of them "
                f"({len(state['anchors'])} anchors in the state, {len(self._names)} here)."
            )
        attached = sum(pull.optimizer is not None for pull in self._pulls)
        if attached > len(state["optimizers"]):
            raise StateError(f"the state knows {len(state['optimizers'])} optimizers, {attached} are attached.")
        if len(self._pulls) == len(state["optimizers"]):
            for pull, part in zip(self._pulls, state["optimizers"], strict=True):
                pull.check(part)
        self._anchors = torch.tensor([state["anchors"][name] for name in self._names], dtype=torch.float64)
        self._loaded = copy.deepcopy(list(state["optimizers"]))
        self._take_over()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles remember everything but the attachment: hooks belong to one optimizer in one process."""
        return {**vars(self), "_pulls": [], "_loaded": self.state_dict()["optimizers"]}

    def _ready(self) -> list[Pull]:
        """The pulls, bound to the parameters that the model has now; the first time, with the anchors taken."""
        if not self._pulls:
            self._pulls = [Pull(self.model, self.plan, self.every)]
        if any(pull.stale for pull in self._pulls):
            self._divide()
        return self._pulls

    def _divide(self) -> None:
        """Give every pull its weights: what its optimizer holds; the first one also what none does."""
        parameters = dict(self.model.named_parameters())
        weights = [parameters[name] for name in self._names]
        nothing: list[int | None] = [None] * len(weights)
        groups = [nothing if pull.optimizer is None else group_of(pull.optimizer, weights) for pull in self._pulls]
        holders = [[k for k, group in enumerate(held) if group is not None] or [0] for held in zip(*groups, strict=True)]
        for k, pull in enumerate(self._pulls):
            pull.bind([name for name, held in zip(self._names, holders, strict=True) if k in held])
        if self._anchors is None:
            self._rebase([True] * len(self._names))
        self._take_over()

    def _take_over(self) -> None:
        """Hand loaded states to their pulls as soon as there are as many, and tell all pulls how strong to be."""
        if self._loaded and len(self._loaded) == len(self._pulls):
            for pull, part in zip(self._pulls, self._loaded, strict=True):
                pull.load(part)
            self._loaded = []
        for pull in self._pulls:
            self._refresh(pull)

    def _refresh(self, pull: Pull) -> None:
        """λ of the pull's weights, following the learning rate if asked to."""
        assert self._anchors is not None
        index = self._index(pull)
        coefficients = self._lambda[index]
        if self.on_lr_decay == "follow" and pull.optimizer is not None:
            ratios = [lr / top if top > 0 else 1.0 for lr, top in zip(pull.lr, pull.largest_lr, strict=True)]
            groups = group_of(pull.optimizer, pull.weights)
            coefficients = coefficients * torch.tensor([1.0 if g is None else ratios[g] for g in groups], dtype=torch.float64)
        pull.set(self._anchors[index], 1 - (1 - coefficients) ** self.every)

    @torch.no_grad()
    def _rebase(self, selected: list[bool]) -> None:
        """The current norms become the anchors of the selected weights."""
        for pull in self._pulls:
            norms, index = pull.norms(), self._index(pull)
            if self._anchors is None:
                self._anchors = torch.zeros(len(self._names), dtype=torch.float64, device=norms.device)
            chosen = torch.tensor([selected[i] for i in index], dtype=torch.bool, device=norms.device)
            self._anchors = self._anchors.to(norms.device)
            self._anchors[index] = torch.where(chosen, norms, self._anchors[index])
        for pull in self._pulls:
            self._refresh(pull)

    def _before(self, pull: Pull, optimizer: Optimizer) -> None:
        """Look whether the learning rate changed, before a step."""
        lr = [float(group["lr"]) for group in optimizer.param_groups]
        if lr == pull.lr:
            return
        pull.watch(optimizer)
        if self.on_lr_decay == "rebase":
            dropped = [new < old for new, old in zip(lr, pull.lr, strict=True)]
            groups = dict(zip(pull.names, group_of(optimizer, pull.weights), strict=True))
            drops = [group is not None and dropped[group] for group in (groups.get(name) for name in self._names)]
            if any(drops):
                self._rebase(drops)
        pull.lr = lr
        pull.largest_lr = [max(pair) for pair in zip(lr, pull.largest_lr, strict=True)]
        self._refresh(pull)

    @torch.no_grad()
    def _after(self, pull: Pull, optimizer: Optimizer) -> None:
        """Rescale, after a step."""
        self._loaded = []
        pull.step(getattr(optimizer, "found_inf", None))

    def _index(self, pull: Pull) -> list[int]:
        position = {name: i for i, name in enumerate(self._names)}
        return [position[name] for name in pull.names]

    def _by_name(self, values: list[Tensor]) -> dict[str, float]:
        found: dict[str, float] = {}
        for pull, part in zip(self._pulls, values, strict=True):
            found |= zip(pull.names, part.tolist(), strict=True)
        return {name: found[name] for name in self._names}
