"""Rescaling on a plan: :class:`SoftWeightRescaling`, after every step of an optimizer."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.blocks import parameter_of
from swr.algebra.describe import table
from swr.algebra.plan import ScalePlan, analyze, frozen_in
from swr.errors import AttachError, ModelWarning, OptionError, PlanError, StateError
from swr.hooks import Handle, group_of, handles_of, refuse_strangers, unwrapped
from swr.rescaling.aim import Aim, AnchorKind
from swr.rescaling.changes import Change, Snapshot, carried
from swr.rescaling.notices import changed, jumped, left_alone, some
from swr.rescaling.state_checks import check_anchors, check_optimizer_state
from swr.rescaling.weight_group import WeightGroup

OnLrDecay = Literal["ignore", "rebase", "follow", "follow-squared"]
Inhomogeneous = Literal["hold", "pass", "free", "raise"]

_EXPONENTS = {"follow": 1, "follow-squared": 2}  # of the learning rate, in λ
_JUMP = 1e-3  # relative change of a norm between construction and the first step that no rounding explains
_JUMP_BY_HAND = 0.5  # the same when the first step itself has already been made


class SoftWeightRescaling:
    """Keep a network plastic: after every optimizer step, scale the weights back; the function changes by one constant only.

        c_l = min(1, ρ n_l / ‖W_l‖)                    growth=ρ: no norm grows past ρ times its anchor n_l (the default)
        c_l = (λ n_l + (1 − λ) ‖W_l‖) / ‖W_l‖          coefficient=λ: the paper's soft pull to the initial norm (Algorithm 1)

        θ = P log c,   p <- exp(θ_p) p

    Biases, shifts and running statistics follow, so that the network's function is only multiplied by one constant.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> rescaler = SoftWeightRescaling(model, torch.randn(1, 4))
    >>> handle = rescaler.attach(optimizer)
    >>> rescaler
    SoftWeightRescaling(growth=1.5, balanced anchors: 2 of 2 weights, 18 entries; attached)

    The anchors come from the norms at construction: build the rescaler after a checkpoint was loaded, call :meth:`rebase`, or
    choose ``anchors="current"``.
    When the model changes later (a layer is replaced, pruned, frozen or unfrozen), it is analysed again before the next step:
    weights of layers that stay keep their anchors, new ones get the norm they have then. A weight that starts at zero has
    no anchor and is left alone until :meth:`rebase`.

    Args:
        model: the model, before it is wrapped; its current norms become the anchors.
        example_inputs: a tensor or a tuple of positional inputs, to trace the model with, now and whenever it changes.
        kwargs: keyword inputs to trace with.
        growth: ρ, the budget: how far a norm may grow, in units of its anchor. It needs no tuning per network and follows
            any schedule of the learning rate by itself. Without it and without ``coefficient`` it is 1.5.
        coefficient: λ in [0, 1], in place of ``growth``; or a mapping from patterns (fnmatch, first match counts) to λ that
            covers every weight.
        anchors: n_l. "balanced", the default of a budget: the norms at construction after the rescaling that makes the sum
            of their squares least and keeps the function, equal norms in a chain of layers. "initial", the default of a
            coefficient: the norms at construction. "current": the norms at the first step, whatever was loaded until then. A
            mapping from patterns to norms sets them by hand.
        every: rescale only each n-th step, with 1 − (1 − λ)^n.
        on_lr_decay: what a coefficient does when the learning rate changes; a budget needs none of it. "ignore"; "rebase" takes
            the anchors again from the current norms whenever the learning rate drops (the paper's SWR + re-init, for
            schedules with a few drops); "follow" scales λ with the learning rate, relative to the largest one seen,
            "follow-squared" with its square.
        inhomogeneous: "hold" keeps the scale before non-homogeneous activations (GELU, SiLU, tanh); "pass" treats them as
            homogeneous, which is approximate; "free" pulls every weight on its own, which changes the function a little;
            "raise" refuses models with an operator that restricts the scales.
        keep_output: C = 1, for regression and value functions.
        plan: a ready plan, for example ``swr.chain(model, example_inputs)``; example inputs given beside it serve to analyse
            the model again when it changes.
    """

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        growth: float | None = None,
        coefficient: float | Mapping[str, float] | None = None,
        anchors: AnchorKind | Mapping[str, float] | None = None,
        every: int = 1,
        on_lr_decay: OnLrDecay = "ignore",
        inhomogeneous: Inhomogeneous = "hold",
        keep_output: bool = False,
        plan: ScalePlan | None = None,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise OptionError(f"every must be a whole number of steps, at least 1, found {every!r}.")
        if on_lr_decay not in get_args(OnLrDecay):
            raise OptionError(f"on_lr_decay must be one of {', '.join(get_args(OnLrDecay))}, found {on_lr_decay!r}.")
        aim = Aim.of(coefficient, growth, anchors)
        if aim.growth is not None and on_lr_decay != "ignore":
            raise OptionError(
                f'on_lr_decay="{on_lr_decay}" adapts a coefficient to the learning rate; a budget (growth={aim.growth:g}) '
                "follows any schedule by itself: leave on_lr_decay out, or give coefficient=λ."
            )
        inputs_given = example_inputs is not None or kwargs is not None
        self._analysis: dict[str, Any] | None = None  # the arguments of analyze(), where the model can be traced again
        if inputs_given:
            inputs = () if example_inputs is None else example_inputs
            self._analysis = {"example_inputs": inputs, "kwargs": kwargs, "inhomogeneous": inhomogeneous}
        if plan is None:
            if self._analysis is None:
                raise OptionError(
                    "example inputs are needed to trace the model; pass a batch of inputs, or a plan of your own (plan=)."
                )
            plan = analyze(model, **self._analysis)
        elif inhomogeneous != "hold" and self._analysis is None:
            raise OptionError("inhomogeneous belongs to the analysis; pass it to swr.analyze when you bring your own plan.")
        if keep_output and plan.inhomogeneous == "free":
            raise OptionError(
                'keep_output=True cannot be promised with inhomogeneous="free", under which the function changes a little: '
                "leave one of them out."
            )
        plan.check(model)
        plan.check_frozen(model)
        self.model = model
        self.every = every
        self.on_lr_decay = on_lr_decay
        self.keep_output = keep_output
        self.aim = aim
        self._groups: list[WeightGroup] = []
        self._loaded: list[dict[str, Any]] = []  # states of groups whose optimizers are still to be attached
        self._norms: dict[str, float] = {}  # at the start, by weight, also of weights that are frozen now; 0 for no anchor
        self._anchors: dict[str, float] = {}  # n_l, which come from these norms
        self._anchors_proven = False  # loaded, rebased, or still right at the first step
        self._reported = False  # what cannot be pulled was said
        self._take_plan(plan, check_patterns=True)
        self._plans = {frozen_in(self.model): plan}  # by what is frozen, so that toggling requires_grad does not trace again
        if not any(p.is_meta for p in model.parameters()):
            self._bind()

    @torch.no_grad()
    def step(self) -> None:
        """Rescale once, as after an optimizer step (each ``every``-th call acts); refused while attached."""
        if any(group.optimizer is not None for group in self._groups):
            raise AttachError(
                "attached to an optimizer, which rescales after each of its steps already; call step() by hand only after "
                "handle.remove()."
            )
        if self.on_lr_decay != "ignore":
            raise AttachError(
                f'on_lr_decay="{self.on_lr_decay}" watches an optimizer; call attach(optimizer) instead of step().'
            )
        self._current()
        self._report_what_is_left_alone()
        self._prove_anchors(_JUMP_BY_HAND)
        self._loaded = []
        for group in self._groups:
            group.step()

    def rebase(self) -> None:
        """Take the anchors n_l again, from the current norms. A weight that is zero now gets none and is left alone."""
        self._current()
        self._norms = {}
        self._measure(self._names)
        self._anchors_proven = True

    def attach(self, optimizer: Optimizer) -> Handle:
        """Rescale after every real step of this optimizer; ``remove()`` on the returned handle undoes it.

        With several optimizers over one model, attach to each: a weight is pulled after the steps of the optimizers
        that hold it, and one that none holds after those of the first.

        Args:
            optimizer: one that holds parameters of the model; Accelerate's wrapper is unwrapped.

        Returns:
            A handle whose ``remove()`` detaches.
        """
        optimizer = unwrapped(optimizer)
        active = [group for group in self._groups if group.optimizer is not None]
        if any(group.optimizer is optimizer for group in active):
            raise AttachError("already attached to this optimizer; call remove() on the first handle before attaching again.")
        refuse_strangers(optimizer, self.model)
        self._refuse_a_second_rescaler(optimizer)
        self._current()
        self._report_what_is_left_alone()
        if not active and len(self._groups) > 1:  # all were detached: each goes on when as many are attached again
            self._loaded = [group.state() for group in self._groups]
        group = next((group for group in self._groups if group.optimizer is None), None)
        group = WeightGroup(self.every) if group is None else group
        self._groups = [*active, group]
        group.watch(optimizer)
        group.handle = Handle(optimizer, before=partial(self._before, group), after=partial(self._after, group), owner=self)
        self._bind()
        return group.handle

    def norms(self) -> dict[str, float]:
        """The present norm ‖W_l‖ of every weight that is rescaled; waits for the device."""
        return self._by_name(self._current(), [group.norms() for group in self._groups])

    def scalers(self) -> dict[str, float]:
        """The scaler c_l that a rescale would ask for now, by weight; 1 at the anchor, below 1 above it."""
        return self._by_name(self._current(), [group.scalers() for group in self._groups])

    def anchors(self) -> dict[str, float]:
        """n_l of every weight that is rescaled; 0 for one that has none. A budget allows ρ n_l."""
        self._current()
        return dict(self._anchors)

    def coefficients(self) -> dict[str, float]:
        """λ of every weight as it is now (under "follow" it depends on the learning rate); 0 without an anchor.

        Under a budget λ is 1: a norm above its limit is brought back to it at once.
        """
        groups = self._current()
        return self._by_name(groups, [1 - (1 - group.strength) ** (1 / self.every) for group in groups])

    def describe(self) -> str:
        """The plan's table with each weight's coefficient or budget, and its anchor."""
        notes = {}
        for name in self._names:
            how = self.aim.note(self._lambda[name])
            if name not in self._anchors:
                notes[name] = f"{how}, anchor taken when the model is materialised"
            elif self._anchors[name] > 0:
                notes[name] = f"{how}, anchor {self._anchors[name]:.4g}"
            else:
                notes[name] = f"{how}, no anchor (its norm was zero or not finite): left alone until rebase()"
        return table(self.plan, notes)

    def __repr__(self) -> str:
        entries = sum(math.prod(self.plan.shapes[name]) for name in self._names)
        attached = "attached" if any(group.optimizer is not None for group in self._groups) else "not attached"
        return (
            f"{type(self).__name__}({self.aim}: {len(self._names)} of {len(self.plan.weights)} weights, {entries:,} entries; "
            f"{attached})"
        )

    def state_dict(self) -> dict[str, Any]:
        """What the anchors come from: the norms at the start, in ``"anchors"``. And for each optimizer the number of steps,
        what rounding has not applied yet, the learning rates seen.
        """
        known = {*self._names, *(name for name in self._norms if parameter_of(name) in self.plan.frozen)}
        return {
            "anchors": {name: norm for name, norm in self._norms.items() if name in known},
            "optimizers": copy.deepcopy(self._loaded) or [group.state() for group in self._groups],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken; before or after the optimizers are attached."""
        if not isinstance(state, Mapping) or set(state) != {"anchors", "optimizers"}:
            found = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"this is not the state of a SoftWeightRescaling: found {found or 'nothing'}.")
        anchors = check_anchors(state["anchors"])
        for each in state["optimizers"]:
            check_optimizer_state(each)
        groups = [] if any(p.is_meta for p in self.model.parameters()) else self._current()
        parked = {name for name in anchors if parameter_of(name) in self.plan.frozen}
        if other := sorted((set(anchors) - parked) ^ set(self._names)):
            raise StateError(
                f"the state belongs to another model: {other[0]!r} is in only one of them "
                f"({len(anchors)} anchors in the state, {len(self._names)} here)."
            )
        attached = sum(group.optimizer is not None for group in groups)
        if attached > len(state["optimizers"]):
            raise StateError(f"the state knows {len(state['optimizers'])} optimizers, {attached} are attached.")
        if len(groups) == len(state["optimizers"]):
            for group, part in zip(groups, state["optimizers"], strict=True):
                group.check(part)
        self._loaded = copy.deepcopy(list(state["optimizers"]))
        self._norms = anchors
        self._anchors_proven = True
        if groups:
            self._bind()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles remember everything but the attachment: hooks belong to one optimizer in one process."""
        kept = {**vars(self), "_groups": [], "_loaded": self.state_dict()["optimizers"], "_snapshot": None}
        return {**kept, "_anchors_proven": self._anchors_proven or bool(self._norms)}

    # How the groups come about.

    def _take_plan(self, plan: ScalePlan, *, check_patterns: bool) -> None:
        """Make a plan the present one."""
        kept = plan.keeping_output() if self.keep_output else plan
        lambdas = self.aim.strengths(kept, "refuse" if check_patterns else "allow")
        if check_patterns:
            self.aim.check_anchors(kept)
        self.plan = kept
        self._names = tuple(name for name in kept.weights if kept.kinds[name] != "held")
        self._lambda = {name: lambdas[name] for name in self._names}
        self._snapshot: Snapshot | None = None

    def _current(self) -> list[WeightGroup]:
        """The groups, bound to the parameters that the model has now."""
        if self._snapshot is None or not self._snapshot.holds():
            self._follow_the_model()
        return self._groups

    def _follow_the_model(self) -> None:
        """Bind again; where the model is another than the plan's, analyse it again first."""
        before = self._snapshot
        changes = () if before is None else before.changes(self.model)
        if before is None or not changes:
            self._bind()  # the same layers, with parameters that a wrapper, a cast or an assignment replaced
            return
        for group in self._groups:
            if group.optimizer is not None:
                refuse_strangers(group.optimizer, self.model)
        plan = self._plans.get(frozen_in(self.model)) if all(change.of_training for change in changes) else None
        known = plan is not None
        plan = self._analysed_again(changes) if plan is None else plan
        kept = carried(before, self.model, self._norms)
        self._take_plan(plan, check_patterns=False)
        if any(not change.of_training for change in changes):
            self._plans = {}
        self._plans[frozen_in(self.model)] = plan
        self._norms = dict(kept)
        self._bind()
        if not known:
            new = [name for name in self._names if name not in kept]
            warnings.warn(changed(changes, len(self._names) - len(new), new), ModelWarning, stacklevel=2)

    def _analysed_again(self, changes: tuple[Change, ...]) -> ScalePlan:
        if self._analysis is None:
            raise PlanError(
                f"the model has changed since its plan was made ({some(map(str, changes))}), and the plan was given without "
                "example inputs, so that it cannot be made again; build a new SoftWeightRescaling, with example inputs if the "
                "model is to change further."
            )
        return analyze(self.model, **self._analysis)

    @torch.no_grad()
    def _bind(self) -> None:
        """Give every group its weights: what its optimizer holds; the first one also what none does."""
        if not self._groups:
            self._groups = [WeightGroup(self.every)]
        parameters = dict(self.model.named_parameters())
        weights = [parameters[parameter_of(name)] for name in self._names]
        nothing: list[int | None] = [None] * len(weights)
        held = [nothing if group.optimizer is None else group_of(group.optimizer, weights) for group in self._groups]
        holders = [[k for k, group in enumerate(each) if group is not None] or [0] for each in zip(*held, strict=True)]
        for k, group in enumerate(self._groups):
            group.bind(self.model, self.plan, [n for n, who in zip(self._names, holders, strict=True) if k in who])
        if self._loaded and len(self._loaded) == len(self._groups):
            for group, part in zip(self._groups, self._loaded, strict=True):
                group.load(part)
            self._loaded = []
        self._snapshot = Snapshot(self.model)
        self._measure(name for name in self._names if name not in self._norms)

    @torch.no_grad()
    def _measure(self, names: Iterable[str]) -> None:
        """Take the norms of these weights, from which the anchors come, and aim at the anchors."""
        chosen = set(names)
        for group in self._groups:
            if chosen.intersection(group.names):
                found = zip(group.names, group.norms().tolist(), strict=True)
                self._norms |= {name: norm if 0 < norm < math.inf else 0.0 for name, norm in found if name in chosen}
        self._anchors = self.aim.anchors_of(self.plan, self._start)
        for group in self._groups:
            self._refresh(group)

    def _refresh(self, group: WeightGroup) -> None:
        """λ of the group's weights, following the learning rate if asked to."""
        coefficients = torch.tensor([self._lambda[name] for name in group.names], dtype=torch.float64)
        if self.on_lr_decay in _EXPONENTS and group.optimizer is not None:
            exponent = _EXPONENTS[self.on_lr_decay]
            ratios = [(lr / top) ** exponent if top > 0 else 1.0 for lr, top in zip(group.lr, group.largest_lr, strict=True)]
            places = group_of(group.optimizer, group.weights)
            coefficients = coefficients * torch.tensor([1.0 if g is None else ratios[g] for g in places], dtype=torch.float64)
        limits = torch.tensor([self._anchors[name] for name in group.names], dtype=torch.float64) * self.aim.reach
        group.set(limits, 1 - (1 - coefficients) ** self.every, down_only=self.aim.growth is not None)

    @property
    def _start(self) -> dict[str, float]:
        """The norms at the start of the weights that are rescaled."""
        return {name: self._norms[name] for name in self._names if name in self._norms}

    # What the optimizers call.

    def _before(self, group: WeightGroup, optimizer: Optimizer) -> None:
        """Before a step: follow what has changed in the model and in the learning rates."""
        self._current()
        if not self._anchors_proven:
            self._prove_anchors(_JUMP)
        if self.on_lr_decay != "ignore":
            self._watch(group, optimizer)

    def _watch(self, group: WeightGroup, optimizer: Optimizer) -> None:
        """Look whether the learning rate changed."""
        lr = [float(each["lr"]) for each in optimizer.param_groups]
        if lr == group.lr:
            return
        group.watch(optimizer)
        if self.on_lr_decay == "rebase":
            dropped = [new < old for new, old in zip(lr, group.lr, strict=True)]
            places = group_of(optimizer, group.weights)
            self._measure(n for n, place in zip(group.names, places, strict=True) if place is not None and dropped[place])
        group.lr = lr
        group.largest_lr = [max(pair) for pair in zip(lr, group.largest_lr, strict=True)]
        self._refresh(group)

    @torch.no_grad()
    def _after(self, group: WeightGroup, optimizer: Optimizer) -> None:
        """Rescale, after a step."""
        self._loaded = []
        group.step(getattr(optimizer, "found_inf", None))

    # What is refused, and what is said.

    def _refuse_a_second_rescaler(self, optimizer: Optimizer) -> None:
        mine = {id(p) for p in self.model.parameters()}
        for handle in handles_of(optimizer):
            other = handle.owner
            if not isinstance(other, SoftWeightRescaling) or other is self:
                continue
            pulled = set(map(parameter_of, other._lambda))
            if shared := [name for name, p in other.model.named_parameters() if id(p) in mine and name in pulled]:
                raise AttachError(
                    f"another SoftWeightRescaling is attached to this optimizer and pulls {some(shared)} already; two would "
                    "pull twice as hard. Keep the first one, call remove() on its handle, or build the optimizer again "
                    "(in a notebook, run the cell that makes it)."
                )

    def _report_what_is_left_alone(self) -> None:
        """Say once which weights cannot be pulled."""
        if not self._reported:
            self._reported = True
            for sentence in left_alone(self.plan, self._names, self._anchors):
                warnings.warn(sentence, ModelWarning, stacklevel=3)

    def _prove_anchors(self, tolerance: float) -> None:
        """Before the first step the norms are those at construction, or something has written to the weights: say so."""
        if self._anchors_proven:
            return
        self._anchors_proven = True
        if any(group.begun for group in self._groups) or isinstance(self.aim.anchors, Mapping):
            return
        if self.aim.at_the_first_step:
            self.rebase()
            return
        norms = self._by_name(self._groups, [group.norms() for group in self._groups])
        if sentence := jumped(norms, self._start, tolerance):
            warnings.warn(sentence, ModelWarning, stacklevel=3)

    def _by_name(self, groups: list[WeightGroup], values: list[Tensor]) -> dict[str, float]:
        found: dict[str, float] = {}
        for group, part in zip(groups, values, strict=True):
            found |= zip(group.names, part.tolist(), strict=True)
        return {name: found[name] for name in self._names}
