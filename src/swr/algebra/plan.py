"""ScalePlan: the equations of a network solved once, as data keyed by parameter name.

All equations together are one homogeneous linear system A θ = 0. SWR sets targets t_w for the weights; the plan gives
the closest admissible θ,

    θ = P t,   P = the projection onto { θ : A θ = 0 } in least squares over the weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from swr.algebra.blocks import Block, Shapes, parameter_of
from swr.algebra.describe import summary, table
from swr.algebra.flow import Flow, Inhomogeneous, follow
from swr.algebra.forms import ZERO, Equation, Form
from swr.algebra.free import FreeFlow
from swr.algebra.fused import join_tied, split_fused
from swr.algebra.graph import Traced, trace
from swr.algebra.rules import lookup
from swr.algebra.solve import Kind, Solution, solve
from swr.algebra.verify import Deviation, deviation
from swr.errors import ModelError, OptionError, PlanError
from swr.probe import as_args

_VERSION = 1


@dataclass(frozen=True, repr=False)
class ScalePlan:
    """Which parameters of a network may be scaled, and how the others follow.

    If the weights are multiplied by exp(P t) and all other parameters as the plan says, the network's output is multiplied by
    one constant, for any targets t.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> plan = analyze(net, torch.randn(5, 4))
    >>> plan.free, plan.followers
    (('0.weight', '2.weight'), ('0.bias', '2.bias'))

    Attributes:
        shapes: every parameter of the model and its shape; a plan fits models with the same names and shapes. The shape of a
            block can be looked up too.
        weights: the parameters that multiply, in order; targets are given for these. A parameter that is used in blocks is
            here by its blocks: ``c_attn.weight[:, 0:64]`` for the queries of a fused matrix.
        followers: the parameters that are only added, such as biases.
        frozen: the parameters that were constants (``requires_grad=False``).
        equations: the forms that must be zero, each with its reason.
        statistics: running statistics of normalisation layers, each with its form.
        output: the form of the network's output, log C.
        inhomogeneous: how exactly the function is kept: "hold" exactly; "pass" up to what non-homogeneous activations do;
            "free" not at all, and there is no C.
    """

    shapes: Mapping[str, tuple[int, ...]]
    weights: tuple[str, ...]
    followers: tuple[str, ...]
    frozen: tuple[str, ...]
    equations: tuple[Equation, ...]
    statistics: Mapping[str, Form]
    output: Form
    inhomogeneous: Literal["hold", "pass", "free"] = "hold"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", Shapes(self.shapes))

    @property
    def free(self) -> tuple[str, ...]:
        """Weights that take any scaler."""
        return self._kind("free")

    @property
    def coupled(self) -> tuple[str, ...]:
        """Weights whose scalers depend on each other."""
        return self._kind("coupled")

    @property
    def held(self) -> tuple[str, ...]:
        """Weights that cannot be scaled at all."""
        return self._kind("held")

    @property
    def unused(self) -> tuple[str, ...]:
        """Parameters that the traced computation never reads; they are not scaled."""
        used = {parameter_of(name) for name in (*self.weights, *self.followers, *self.frozen)}
        return tuple(name for name in self.shapes if name not in used)

    @cached_property
    def solution(self) -> Solution:
        """The projection, computed once."""
        return solve(self.weights, self.followers, self.equations)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of each weight: free, coupled or held."""
        return self.solution.kinds

    @cached_property
    def _rows(self) -> dict[str, Tensor]:
        """The row of θ = P t of every parameter that is used and every running statistic, computed once."""
        forms = {name: Form.of(name) for name in (*self.weights, *self.followers)} | dict(self.statistics)
        return dict(zip(forms, self.solution.rows(list(forms.values())), strict=True))

    def matrix(self, names: tuple[str, ...]) -> Tensor:
        """Rows of θ = P t for parameters or running statistics, one column per weight, float64."""
        if not names:
            return torch.zeros(0, len(self.weights), dtype=torch.float64)
        return torch.stack([self._rows[name] for name in names])

    @cached_property
    def scaled(self) -> tuple[str, ...]:
        """Every parameter and running statistic that a rescale can change."""
        moved = torch.stack([*self._rows.values()]).any(1).tolist() if self._rows else []
        return tuple(name for name, moves in zip(self._rows, moved, strict=True) if moves)

    @property
    def output_row(self) -> Tensor:
        """The row of log C = output · P t."""
        return self.solution.row(self.output)

    def keeping_output(self) -> ScalePlan:
        """The same plan with C = 1: the function itself is kept, not only up to a constant.

        A plan made with ``inhomogeneous="free"`` has no C and is returned as it is.
        """
        if self.inhomogeneous == "free":
            return self
        kept = Equation(self.output, "the output keeps its scale")
        return self if kept in self.equations else replace(self, equations=(*self.equations, kept))

    def check(self, model: nn.Module) -> None:
        """Raise :class:`~swr.PlanError` unless the plan belongs to this model."""
        shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        if shapes == dict(self.shapes):
            return
        missing = [n for n in self.shapes if n not in shapes]
        extra = [n for n in shapes if n not in self.shapes]
        other = [n for n in shapes if n in self.shapes and shapes[n] != tuple(self.shapes[n])]
        found = "; ".join(
            f"{label}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
            for label, names in (
                ("missing in the model", missing),
                ("unknown to the plan", extra),
                ("of another shape", other),
            )
            if names
        )
        raise PlanError(f"the plan belongs to another model ({found}); analyse this one with swr.analyze.")

    def check_frozen(self, model: nn.Module) -> None:
        """Raise :class:`~swr.PlanError` unless the parameters that are frozen now were frozen when the plan was made."""
        frozen = frozen_in(model)
        if other := sorted(frozen ^ set(self.frozen)):
            was, now = ("trained", "frozen") if other[0] in frozen else ("frozen", "trained")
            raise PlanError(f"the plan was made while {other[0]} was {was}, now it is {now}; analyse the model again.")

    def verify(
        self, model: nn.Module, example_inputs: Any = (), kwargs: Mapping[str, Any] | None = None, *, seed: int = 0
    ) -> Deviation:
        """Rescale a copy with random scalers and measure how far its function is from proportional.

            max over outputs of  ‖f_θ'(x) − C f_θ(x)‖_∞ / ‖C f_θ(x)‖_∞

        The scalers are exp(U(−0.7, 0.7)). Model and inputs are copied to float64, one copy at a time; the model itself
        is not changed. Integer outputs must stay the same, or the deviation is infinite.

        A normalisation layer divides by √(σ² + ε), which is not proportional to σ. The number that is returned leaves
        these epsilons out: it is measured with every ``eps``, ``epsilon`` and ``variance_epsilon`` of a module made
        negligible. ``total`` is the deviation with them. An epsilon that is a number in
        the code of a forward counts in both.

        A plan made with ``inhomogeneous="pass"`` or ``"free"`` keeps the function approximately, and the number says how far
        such scalers take it. "free" promises no C; the one that fits the outputs best is taken.

        >>> net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))
        >>> x = torch.randn(5, 4)
        >>> found = analyze(net, x).verify(net, x)
        >>> found < 1e-9 < found.total
        True

        Args:
            model: the model the plan was made from.
            example_inputs: as in :func:`analyze`.
            kwargs: as in :func:`analyze`.
            seed: the seed of the scalers and of the model's own randomness.

        Returns:
            The deviation: a float with the attributes ``total``, and ``epsilon`` for what the epsilons add.
        """
        return deviation(self, model, as_args(example_inputs), dict(kwargs or {}), seed)

    def describe(self) -> str:
        """A text of at most 100 columns: the share of entries that is free, coupled and held, then every parameter and why.

        Blocks that are alike are shown once; in them, names that start with a dot are inside the block.
        """
        return table(self)

    def __repr__(self) -> str:
        return f"ScalePlan({summary(self)})"

    def to_json(self) -> str:
        """The plan as text; :meth:`from_json` reads it back."""
        return json.dumps(
            {
                "version": _VERSION,
                "shapes": {name: list(shape) for name, shape in self.shapes.items()},
                "weights": self.weights,
                "followers": self.followers,
                "frozen": self.frozen,
                "equations": [[e.form.terms, e.reason, e.fixes] for e in self.equations],
                "statistics": {name: form.terms for name, form in self.statistics.items()},
                "output": self.output.terms,
                "inhomogeneous": self.inhomogeneous,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> ScalePlan:
        """Read a plan written by :meth:`to_json`.

        Raises:
            PlanError: the text is not a plan, or has another format version.
        """
        try:
            data = json.loads(text)
            if data["version"] != _VERSION:
                raise PlanError(
                    f"the plan has format {data['version']}, this version reads {_VERSION}; analyse the model again."
                )
            return cls(
                shapes={name: tuple(shape) for name, shape in data["shapes"].items()},
                weights=tuple(data["weights"]),
                followers=tuple(data["followers"]),
                frozen=tuple(data["frozen"]),
                equations=tuple(Equation(Form(form), *rest) for form, *rest in data["equations"]),
                statistics={name: Form(form) for name, form in data["statistics"].items()},
                output=Form(data["output"]),
                inhomogeneous=data.get("inhomogeneous", "hold"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"this is not the text of a plan ({error!r}); write one with plan.to_json().") from error

    def _kind(self, kind: Kind) -> tuple[str, ...]:
        return tuple(name for name in self.weights if self.kinds[name] == kind)


def analyze(
    model: nn.Module,
    example_inputs: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    inhomogeneous: Inhomogeneous = "hold",
) -> ScalePlan:
    """Find how the parameters of a model may be scaled so that its function changes only by one constant factor.

    The model is traced once, in its current mode (train or eval). It is neither run nor changed.

    >>> plan = analyze(nn.Linear(3, 2), torch.randn(1, 3))
    >>> plan.free
    ('weight',)

    With ``inhomogeneous="free"`` no operator restricts a weight. A shift follows the weight to whose output it is added: the
    bias of a linear layer its weight, the shift of a normalisation layer its gain, class token and learned positions the
    embedding of the patches. It gets that weight's own scaler, not a product over the layers before. Running statistics of a
    batch norm follow the layer before it. What is added where several weights meet, such as one bias of two layers, follows
    no single weight and stays. So does a parameter that is no factor: a slope of PReLU, exp(temperature). Tables that are
    looked up are weights, also those of positions.

    >>> gelu = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 2))
    >>> analyze(gelu, torch.randn(1, 3)).held, analyze(gelu, torch.randn(1, 3), inhomogeneous="free").free
    (('0.weight',), ('0.weight', '2.weight'))

    Args:
        model: a plain model, before it is wrapped (DDP, FSDP, torch.compile).
        example_inputs: a tensor, or a tuple of positional inputs.
        kwargs: keyword inputs.
        inhomogeneous: "hold" keeps the scale before non-homogeneous activations (GELU, SiLU, tanh); "pass" treats them as
            homogeneous, which is approximate; "raise" refuses models with an operator that restricts the scales; "free"
            scales every weight on its own and does not keep the function, to control the norms of a transformer.

    Returns:
        The plan.

    Raises:
        ModelError: the model cannot be traced, or is refused by ``inhomogeneous="raise"``.
        InputsError: the model does not accept the inputs.
        OptionError: ``inhomogeneous`` is none of the four.
    """
    if inhomogeneous not in ("hold", "pass", "raise", "free"):
        raise OptionError(f'inhomogeneous must be "hold", "pass", "raise" or "free", found {inhomogeneous!r}.')
    traced = trace(model, as_args(example_inputs), kwargs)
    traced = split_fused(traced, {name for name, p in model.named_parameters() if p.requires_grad})
    plan = plan_of_graph(model, traced, inhomogeneous)
    return join_tied(plan, plan if plan.inhomogeneous == "hold" else plan_of_graph(model, traced))


def plan_of_graph(model: nn.Module, traced: Traced, inhomogeneous: Inhomogeneous = "hold") -> ScalePlan:
    """The plan of a model, from its graph; see :func:`analyze`.

    Args:
        model: the model.
        traced: its graph, whole or with its fused parameters split (:func:`~swr.algebra.fused.split_fused`).
        inhomogeneous: as in :func:`analyze`.
    """
    frozen = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    buffers = dict(model.named_buffers())
    flow = Flow(inhomogeneous)
    output = follow(traced, flow, lookup, frozen=frozen, buffers=buffers)
    if inhomogeneous == "free":
        free = FreeFlow(inhomogeneous, multiplying=frozenset(flow.weights))
        follow(traced, free, lookup, frozen=frozen, buffers=buffers)
        free.settle()
        return replace(plan_of(model, free, ZERO), inhomogeneous="free")
    if inhomogeneous == "raise" and flow.restricting:
        places = list(dict.fromkeys(flow.restricting))
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        raise ModelError(
            f"not homogeneous: {', '.join(places[:3])}{more}; "
            'inhomogeneous="hold" keeps the scale of their inputs, "pass" ignores the difference.'
        )
    plan = plan_of(model, flow, output)
    return replace(plan, inhomogeneous="pass") if inhomogeneous == "pass" else plan


def plan_of(model: nn.Module, flow: Flow, output: Form) -> ScalePlan:
    """The plan of a model, from the equations that a flow has collected."""
    parameters = dict(model.named_parameters())
    frozen = frozen_in(model)
    blocks = sorted(block for name in flow.seen if name not in parameters and (block := Block.named(name)) is not None)
    seen = [n for name in parameters for n in (*(b.name for b in blocks if b.parameter == name), name) if n in flow.seen]
    return ScalePlan(
        shapes={name: tuple(p.shape) for name, p in parameters.items()},
        weights=tuple(n for n in seen if n in flow.weights),
        followers=tuple(n for n in seen if n not in flow.weights),
        frozen=tuple(name for name in parameters if name in frozen),
        equations=tuple(dict.fromkeys(flow.equations)),
        statistics={name: form for name, form in flow.statistics.items() if not form.is_zero},
        output=output,
    )


def frozen_in(model: nn.Module) -> frozenset[str]:
    """The names of the parameters that are not trained."""
    return frozenset(name for name, p in model.named_parameters() if not p.requires_grad)
