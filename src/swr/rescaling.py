"""Theorem 1 and Algorithm 1 on a plan: :func:`rescale` once, :class:`SoftWeightRescaling` after every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.apply import Scaled, multiply
from swr.algebra.describe import table
from swr.algebra.plan import ScalePlan, analyze
from swr.errors import AttachError, OptionError, PlanError, StateError
from swr.hooks import Handle, group_of, unwrapped
from swr.norms import frobenius_norms
from swr.scaling import OnDevice, OnHost

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
        _check_coefficients(coefficient)
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
        by_name = _coefficients(coefficient, self.plan)
        self._lambda = torch.tensor([by_name[name] for name in self._names], dtype=torch.float64)
        self._ratio = torch.ones_like(self._lambda)
        self._steps = 0
        self._lr: list[float] = []
        self._largest_lr: list[float] = []
        self._handle: Handle | None = None
        self._bind({})
        self.rebase()

    @torch.no_grad()
    def step(self) -> None:
        """Rescale once, as after an optimizer step (each ``every``-th call acts)."""
        if self.on_lr_decay != "ignore" and (self._handle is None or not self._handle.active):
            raise AttachError(
                f'on_lr_decay="{self.on_lr_decay}" watches an optimizer; call attach(optimizer) instead of step().'
            )
        self._step(None)

    @torch.no_grad()
    def rebase(self) -> None:
        """Make the current norms the anchors n_l^init. A weight that is zero now gets none and is left alone."""
        self._anchors = self._norms()
        self._refresh()

    def attach(self, optimizer: Optimizer) -> Handle:
        """Rescale after every real step of this optimizer; ``remove()`` on the returned handle undoes it.

        optimizer: one that holds parameters of the model; Accelerate's wrapper is seen through.
        """
        optimizer = unwrapped(optimizer)
        if self._handle is not None and self._handle.active:
            raise AttachError("already attached to an optimizer; call remove() on the first handle before attaching again.")
        self._bind(self._pending())
        self._groups = group_of(optimizer, self._weights)
        if all(group is None for group in group_of(optimizer, list(self.model.parameters()))):
            raise AttachError(
                "the optimizer holds none of this model's parameters; build it from model.parameters() of the same model."
            )
        if len(self._lr) != len(optimizer.param_groups):
            self._lr = [float(group["lr"]) for group in optimizer.param_groups]
            self._largest_lr = list(self._lr)
        self._follow_lr()
        watch = None if self.on_lr_decay == "ignore" else self.before_step
        self._handle = Handle(optimizer, before=watch, after=self.after_step)
        return self._handle

    def before_step(self, optimizer: Optimizer) -> None:
        """Look whether the learning rate changed; called by the optimizer."""
        lr = [float(group["lr"]) for group in optimizer.param_groups]
        if lr == self._lr:
            return
        if self.on_lr_decay == "rebase":
            dropped = [new < old for new, old in zip(lr, self._lr, strict=True)]
            self._rebase_groups([group is not None and dropped[group] for group in self._groups])
        self._lr = lr
        self._largest_lr = [max(pair) for pair in zip(lr, self._largest_lr, strict=True)]
        self._follow_lr()

    @torch.no_grad()
    def after_step(self, optimizer: Optimizer) -> None:
        """Rescale; called by the optimizer."""
        self._step(getattr(optimizer, "found_inf", None))

    def describe(self) -> str:
        """The plan's table with each weight's coefficient and anchor."""
        notes = {}
        for name, coefficient, anchor in zip(self._names, self._lambda.tolist(), self._anchors.tolist(), strict=True):
            usable = math.isfinite(anchor) and anchor > 0
            notes[name] = f"λ {coefficient:g}, " + (
                f"anchor {anchor:.4g}" if usable else "no anchor (its norm was zero or not finite): left alone until rebase()"
            )
        return table(self.plan, notes)

    def state_dict(self) -> dict[str, Any]:
        """Anchors, what rounding has not applied yet, the number of steps, the learning rates seen."""
        return {
            "anchors": dict(zip(self._names, self._anchors.tolist(), strict=True)),
            "pending": self._pending(),
            "steps": self._steps,
            "lr": list(self._lr),
            "largest_lr": list(self._largest_lr),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken."""
        if not isinstance(state, Mapping) or set(state) != set(self.state_dict()):
            found = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"this is not the state of a SoftWeightRescaling: found {found or 'nothing'}.")
        for key, names in (("anchors", self._names), ("pending", self._scaled.names)):
            if other := sorted(set(state[key]) ^ set(names)):
                raise StateError(
                    f"the state belongs to another model: {other[0]!r} is in only one of them "
                    f"({len(state[key])} {key} in the state, {len(names)} here)."
                )
        if self._handle is not None and self._handle.active and len(state["lr"]) != len(self._lr):
            raise StateError(f"the state knows {len(state['lr'])} parameter groups, the optimizer has {len(self._lr)}.")
        self._bind(state["pending"])
        self._anchors = torch.tensor([state["anchors"][name] for name in self._names], dtype=torch.float64)
        self._steps = int(state["steps"])
        self._lr, self._largest_lr = list(state["lr"]), list(state["largest_lr"])
        self._follow_lr()

    def _step(self, found_inf: Tensor | None) -> None:
        self._steps += 1
        if self._weights and self._steps % self.every == 0:
            self._scaling.rescale(found_inf)

    def _bind(self, pending: Mapping[str, float]) -> None:
        """Find the tensors of the model; again at every attach, since wrappers may have replaced them."""
        parameters = dict(self.model.named_parameters())
        self._weights = [parameters[name] for name in self._names]
        self._scaled = Scaled(self.model, self.plan.scaled)
        column = {name: i for i, name in enumerate(self.plan.weights)}
        matrix = self.plan.matrix(self._scaled.names)[:, [column[name] for name in self._names]].contiguous()
        arithmetic = OnHost if OnHost.suits(self._weights, self._scaled, matrix) else OnDevice
        self._scaling = arithmetic(self._weights, self._scaled, matrix)
        self._scaling.set_pending([pending.get(name, 0.0) for name in self._scaled.names])

    def _pending(self) -> dict[str, float]:
        return dict(zip(self._scaled.names, self._scaling.pending(), strict=True))

    def _norms(self) -> Tensor:
        return frobenius_norms(self._weights) if self._weights else torch.zeros(0, dtype=torch.float64)

    def _refresh(self) -> None:
        """λ n^init and 1 − λ of a rescale, from what they depend on; no anchor means λ = 0."""
        device = self._anchors.device
        usable = torch.isfinite(self._anchors) & (self._anchors > 0)
        strength = 1 - (1 - (self._lambda * self._ratio).to(device)) ** self.every
        strength = torch.where(usable, strength, 0.0)
        self._scaling.set_pull(strength * torch.where(usable, self._anchors, 0.0), 1 - strength)

    def _rebase_groups(self, selected: list[bool]) -> None:
        with torch.no_grad():
            norms = self._norms()
            self._anchors = torch.where(torch.tensor(selected, device=norms.device), norms, self._anchors.to(norms.device))
        self._refresh()

    def _follow_lr(self) -> None:
        if self.on_lr_decay == "follow" and self._lr:
            ratios = [lr / top if top > 0 else 1.0 for lr, top in zip(self._lr, self._largest_lr, strict=True)]
            self._ratio = torch.tensor([1.0 if g is None else ratios[g] for g in self._groups], dtype=torch.float64)
        self._refresh()


def _coefficients(coefficient: float | Mapping[str, float], plan: ScalePlan) -> dict[str, float]:
    """λ of every weight of the plan."""
    if not isinstance(coefficient, Mapping):
        return dict.fromkeys(plan.weights, float(coefficient))
    found = {name: next((p for p in coefficient if fnmatchcase(name, p)), None) for name in plan.weights}
    if unmatched := [name for name, pattern in found.items() if pattern is None]:
        raise OptionError(
            f"no pattern of coefficient matches the weight {unmatched[0]!r} (patterns: {', '.join(map(repr, coefficient))}); "
            'add one, for example "*".'
        )
    if idle := [p for p in coefficient if not any(fnmatchcase(name, p) for name in plan.weights)]:
        raise OptionError(
            f"the pattern {idle[0]!r} of coefficient matches no weight; the weights are {', '.join(plan.weights)}."
        )
    return {name: float(coefficient[pattern]) for name, pattern in found.items() if pattern is not None}


def _check_coefficients(coefficient: float | Mapping[str, float]) -> None:
    if isinstance(coefficient, Mapping) and not coefficient:
        raise OptionError('coefficient is an empty mapping; give a number, or patterns such as {"*": 1e-3}.')
    values = coefficient.items() if isinstance(coefficient, Mapping) else [("", coefficient)]
    for pattern, value in values:
        of = f" for {pattern!r}" if pattern else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise OptionError(f"coefficient λ{of} must be a number between 0 and 1, found {value!r}.")
