"""Algorithm 1 on a plan: :class:`SoftWeightRescaling`, after every step of an optimizer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.describe import table
from swr.algebra.plan import ScalePlan, analyze, frozen_in
from swr.errors import AttachError, ModelWarning, OptionError, PlanError, StateError
from swr.hooks import Handle, group_of, handles_of, refuse_strangers, unwrapped
from swr.rescaling.changes import Change, Snapshot, carried
from swr.rescaling.coefficients import check_coefficients, coefficients_of
from swr.rescaling.notices import changed, jumped, left_alone, some
from swr.rescaling.weight_group import WeightGroup

OnLrDecay = Literal["ignore", "rebase", "follow"]

_JUMP = 1e-3  # relative change of a norm between construction and the first step that no rounding explains
_JUMP_BY_HAND = 0.5  # the same when the first step itself has already been made


class SoftWeightRescaling:
    """Keep a network plastic: after every optimizer step, scale each layer's weights softly back to their initial norm.

        c_l = (λ n_l^init + (1 − λ) ‖W_l‖) / ‖W_l‖,   θ = P log c,   p <- exp(θ_p) p

    Weights are pulled to their anchors n_l^init (Algorithm 1); biases, shifts and running statistics follow, so that
    the network's function is only multiplied by one constant.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> rescaler = SoftWeightRescaling(model, torch.randn(1, 4), coefficient=1e-3)
    >>> handle = rescaler.attach(optimizer)

    The anchors are the norms at construction: build the rescaler after a checkpoint was loaded, or call :meth:`rebase`.
    When the model changes later (a layer is replaced, pruned, frozen or unfrozen), it is analysed again before the next step:
    weights of layers that stay keep their anchors, new ones get the norm they have then. A weight that starts at zero has
    no anchor and is left alone until :meth:`rebase`.

    Args:
        model: the model, before it is wrapped; its current norms become the anchors.
        example_inputs: a tensor or a tuple of positional inputs, to trace the model with, now and whenever it changes.
        kwargs: keyword inputs to trace with.
        coefficient: λ in [0, 1]; or a mapping from patterns (fnmatch, first match counts) to λ that covers every weight.
        every: rescale only each n-th step, with 1 − (1 − λ)^n.
        on_lr_decay: "ignore"; "rebase" makes the current norms the anchors whenever the learning rate drops (the paper's
            SWR + re-init, for schedules with a few drops); "follow" scales λ with the learning rate, relative to the
            largest one seen.
        inhomogeneous: "hold" keeps the scale before non-homogeneous activations (GELU, SiLU, tanh); "pass" treats them as
            homogeneous, which is approximate; "raise" refuses models with an operator that restricts the scales.
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
        coefficient: float | Mapping[str, float] = 1e-3,
        every: int = 1,
        on_lr_decay: OnLrDecay = "ignore",
        inhomogeneous: Literal["hold", "pass", "raise"] = "hold",
        keep_output: bool = False,
        plan: ScalePlan | None = None,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise OptionError(f"every must be a whole number of steps, at least 1, found {every!r}.")
        if on_lr_decay not in ("ignore", "rebase", "follow"):
            raise OptionError(f'on_lr_decay must be "ignore", "rebase" or "follow", found {on_lr_decay!r}.')
        check_coefficients(coefficient)
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
        plan.check(model)
        plan.check_frozen(model)
        self.model = model
        self.every = every
        self.on_lr_decay = on_lr_decay
        self.keep_output = keep_output
        self._coefficient = coefficient
        self._groups: list[WeightGroup] = []
        self._loaded: list[dict[str, Any]] = []  # states of groups whose optimizers are still to be attached
        self._parked: dict[str, float] = {}  # anchors of weights that the plan leaves alone now, for example frozen ones
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
        groups = self._current()
        self._report_what_is_left_alone()
        self._prove_anchors(_JUMP_BY_HAND)
        self._loaded = []
        for group in groups:
            group.step()

    def rebase(self) -> None:
        """Make the current norms the anchors n_l^init. A weight that is zero now gets none and is left alone."""
        self._current()
        self._rebase(self._names)
        self._parked = {}
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
        anchors = self._anchors()
        self._groups = [*active, group]
        group.watch(optimizer)
        group.handle = Handle(optimizer, before=partial(self._before, group), after=partial(self._after, group), owner=self)
        self._bind(anchors)
        return group.handle

    def norms(self) -> dict[str, float]:
        """The present norm ‖W_l‖ of every weight that is rescaled; waits for the device."""
        return self._by_name(self._current(), [group.norms() for group in self._groups])

    def scalers(self) -> dict[str, float]:
        """The scaler c_l that a rescale would ask for now, by weight; 1 at the anchor, below 1 above it."""
        return self._by_name(self._current(), [group.scalers() for group in self._groups])

    def anchors(self) -> dict[str, float]:
        """n_l^init of every weight that is rescaled; 0 for one that has none."""
        return self._by_name(self._current(), [group.anchors for group in self._groups])

    def coefficients(self) -> dict[str, float]:
        """λ of every weight as it is now (under "follow" it depends on the learning rate); 0 without an anchor."""
        groups = self._current()
        return self._by_name(groups, [1 - (1 - group.strength) ** (1 / self.every) for group in groups])

    def describe(self) -> str:
        """The plan's table with each weight's coefficient and anchor."""
        notes = {}
        anchors = self._anchors()
        for name in self._names:
            lam = self._lambda[name]
            if name not in anchors:
                notes[name] = f"λ {lam:g}, anchor taken when the model is materialised"
            elif anchors[name] > 0:
                notes[name] = f"λ {lam:g}, anchor {anchors[name]:.4g}"
            else:
                notes[name] = f"λ {lam:g}, no anchor (its norm was zero or not finite): left alone until rebase()"
        return table(self.plan, notes)

    def state_dict(self) -> dict[str, Any]:
        """Anchors; and for each optimizer the number of steps, what rounding has not applied yet, the learning rates seen."""
        return {
            "anchors": {**self._anchors(), **self._parked},
            "optimizers": copy.deepcopy(self._loaded) or [group.state() for group in self._groups],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken; before or after the optimizers are attached."""
        if not isinstance(state, Mapping) or set(state) != {"anchors", "optimizers"}:
            found = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(f"this is not the state of a SoftWeightRescaling: found {found or 'nothing'}.")
        groups = [] if any(p.is_meta for p in self.model.parameters()) else self._current()
        anchors: dict[str, float] = dict(state["anchors"])
        parked = {name: anchors[name] for name in self.plan.frozen if name in anchors}
        if other := sorted((set(anchors) - set(parked)) ^ set(self._names)):
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
        self._parked = parked
        self._anchors_proven = True
        if groups:
            self._bind({name: anchors[name] for name in self._names})
        else:
            self._parked |= {name: anchors[name] for name in self._names}

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles remember everything but the attachment: hooks belong to one optimizer in one process."""
        state = self.state_dict()
        kept = {**vars(self), "_groups": [], "_loaded": state["optimizers"], "_parked": state["anchors"]}
        return {**kept, "_snapshot": None, "_anchors_proven": self._anchors_proven or bool(state["anchors"])}

    # How the groups come about.

    def _take_plan(self, plan: ScalePlan, *, check_patterns: bool) -> None:
        """Make a plan the present one."""
        kept = plan.keeping_output() if self.keep_output else plan
        lambdas = coefficients_of(self._coefficient, kept, idle_patterns="refuse" if check_patterns else "allow")
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
        before, anchors = self._snapshot, self._anchors()
        changes = () if before is None else before.changes(self.model)
        if before is None or not changes:
            self._bind(anchors)  # the same layers, with parameters that a wrapper, a cast or an assignment replaced
            return
        for group in self._groups:
            if group.optimizer is not None:
                refuse_strangers(group.optimizer, self.model)
        plan = self._plans.get(frozen_in(self.model)) if all(change.of_training for change in changes) else None
        known = plan is not None
        plan = self._analysed_again(changes) if plan is None else plan
        kept = carried(before, self.model, {**self._parked, **anchors})
        self._take_plan(plan, check_patterns=False)
        if any(not change.of_training for change in changes):
            self._plans = {}
        self._plans[frozen_in(self.model)] = plan
        self._parked = {name: anchor for name, anchor in kept.items() if name not in self._lambda}
        self._bind({name: anchor for name, anchor in kept.items() if name in self._lambda})
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

    def _bind(self, anchors: Mapping[str, float] | None = None) -> None:
        """Give every group its weights: what its optimizer holds; the first one also what none does."""
        if not self._groups:
            self._groups = [WeightGroup(self.every)]
        anchors = {name: n for name, n in {**self._parked, **(anchors or {})}.items() if name in self._lambda}
        parameters = dict(self.model.named_parameters())
        weights = [parameters[name] for name in self._names]
        nothing: list[int | None] = [None] * len(weights)
        held = [nothing if group.optimizer is None else group_of(group.optimizer, weights) for group in self._groups]
        holders = [[k for k, group in enumerate(each) if group is not None] or [0] for each in zip(*held, strict=True)]
        for k, group in enumerate(self._groups):
            group.bind(self.model, self.plan, [n for n, who in zip(self._names, holders, strict=True) if k in who], anchors)
        self._parked = {name: n for name, n in self._parked.items() if name not in self._lambda}
        if self._loaded and len(self._loaded) == len(self._groups):
            for group, part in zip(self._groups, self._loaded, strict=True):
                group.load(part)
            self._loaded = []
        for group in self._groups:
            self._refresh(group)
        self._snapshot = Snapshot(self.model)

    def _refresh(self, group: WeightGroup) -> None:
        """λ of the group's weights, following the learning rate if asked to."""
        coefficients = torch.tensor([self._lambda[name] for name in group.names], dtype=torch.float64)
        if self.on_lr_decay == "follow" and group.optimizer is not None:
            ratios = [lr / top if top > 0 else 1.0 for lr, top in zip(group.lr, group.largest_lr, strict=True)]
            places = group_of(group.optimizer, group.weights)
            coefficients = coefficients * torch.tensor([1.0 if g is None else ratios[g] for g in places], dtype=torch.float64)
        group.set(group.anchors, 1 - (1 - coefficients) ** self.every)

    @torch.no_grad()
    def _rebase(self, names: Iterable[str]) -> None:
        """The current norms become the anchors of these weights, in every group that has them."""
        chosen = set(names)
        for group in self._groups:
            mask = torch.tensor([name in chosen for name in group.names], dtype=torch.bool)
            norms = group.norms()
            group.set(torch.where(mask.to(norms.device), norms, group.anchors.to(norms.device)), group.strength)
            self._refresh(group)

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
            self._rebase(n for n, place in zip(group.names, places, strict=True) if place is not None and dropped[place])
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
            if shared := [name for name, p in other.model.named_parameters() if id(p) in mine and name in other._lambda]:
                raise AttachError(
                    f"another SoftWeightRescaling is attached to this optimizer and pulls {some(shared)} already; two would "
                    "pull twice as hard. Keep the first one, call remove() on its handle, or build the optimizer again "
                    "(in a notebook, run the cell that makes it)."
                )

    def _report_what_is_left_alone(self) -> None:
        """Say once which weights cannot be pulled."""
        if not self._reported:
            self._reported = True
            for sentence in left_alone(self.plan, self._names, self._anchors()):
                warnings.warn(sentence, ModelWarning, stacklevel=3)

    def _prove_anchors(self, tolerance: float) -> None:
        """Before the first step the norms are those at construction, or something has written to the weights: say so."""
        if self._anchors_proven:
            return
        self._anchors_proven = True
        if any(group.begun for group in self._groups):
            return
        norms = self._by_name(self._groups, [group.norms() for group in self._groups])
        if sentence := jumped(norms, self._anchors(), tolerance):
            warnings.warn(sentence, ModelWarning, stacklevel=3)

    def _anchors(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for group in self._groups:
            found |= zip(group.names, group.anchors.tolist(), strict=True)
        return {name: found[name] for name in self._names if name in found}

    def _by_name(self, groups: list[WeightGroup], values: list[Tensor]) -> dict[str, float]:
        found: dict[str, float] = {}
        for group, part in zip(groups, values, strict=True):
            found |= zip(group.names, part.tolist(), strict=True)
        return {name: found[name] for name in self._names}
