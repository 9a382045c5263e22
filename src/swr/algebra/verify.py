"""Measure how far a rescaled copy of a model is from proportional to the model, and what the epsilons have to do with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from swr.algebra.apply import multiply
from swr.algebra.copies import as_double, aside, copied, first_line, rejection, shrink_epsilons, summary
from swr.algebra.graph import no_cache
from swr.errors import InputsError, ModelError

if TYPE_CHECKING:
    from swr.algebra.plan import ScalePlan


class Deviation(float):
    """How far a rescaled model is from proportional, as a number to compare.

    >>> Deviation(3e-16, total=2e-3, guards=5)
    3.0e-16, and 2.0e-03 with the epsilons of 5 modules
    >>> Deviation(3e-16, total=2e-3, guards=5) < 1e-3
    True

    Args:
        value: the deviation with the epsilons of the normalisation layers negligible: what the plan answers for.
        total: the deviation of the model as it is.
        guards: the number of modules whose epsilon made the difference between the two.
        notes: what the number does not cover, such as outputs that are all zero, which every rescale keeps.
    """

    total: float
    guards: int
    notes: tuple[str, ...]

    def __new__(cls, value: float, total: float | None = None, guards: int = 0, notes: tuple[str, ...] = ()) -> Deviation:
        """A float with the numbers beside it; without them, one that nothing else is known about."""
        self = super().__new__(cls, value)
        self.total = float(value) if total is None else total
        self.guards = guards
        self.notes = notes
        return self

    @property
    def epsilon(self) -> float:
        """The share of the total that is due to the epsilons."""
        return max(self.total - float(self), 0.0)

    def __repr__(self) -> str:
        text = f"{float(self):.1e}"
        if self.guards:
            text += f", and {self.total:.1e} with the epsilons of {self.guards} {'module' if self.guards == 1 else 'modules'}"
        return "; ".join([text, *self.notes])

    __str__ = __repr__


def deviation(plan: ScalePlan, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> Deviation:
    """The largest relative deviation of f_θ'(x) from C·f_θ(x) over all outputs, in float64, one copy at a time."""
    plan.check(model)
    _refuse(model, args, kwargs)
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(len(plan.weights), generator=generator, dtype=torch.float64) * 2 - 1) * 0.7
    names = plan.scaled
    factors = (plan.matrix(names) @ targets).exp()
    promised = None if plan.inhomogeneous == "free" else float((plan.output_row @ targets).exp())
    guards = 0

    def outputs(*, rescaled: bool, epsilons: bool) -> list[Tensor]:
        nonlocal guards
        network = copied(model, double=True)
        if not epsilons:
            guards = shrink_epsilons(network)
        if rescaled:
            multiply(network, names, factors)
        return _outputs(network, model, args, kwargs, seed)

    def measure(*, epsilons: bool) -> tuple[float, tuple[int, int]]:
        before = _informative(outputs(rescaled=False, epsilons=epsilons), model, args, kwargs)
        after = outputs(rescaled=True, epsilons=epsilons)
        if len(before) != len(after):
            return float("inf"), (0, len(before))
        pairs = list(zip(before, after, strict=True))
        constant = _fitted(pairs) if promised is None else promised
        worst = max(relative_deviation(b, a, constant) for b, a in pairs)
        return worst, (sum(_is_zero(b) and _is_zero(a) for b, a in pairs), len(pairs))

    value, (zeros, every) = measure(epsilons=False)
    total = measure(epsilons=True)[0] if guards else value
    notes = [f"{zeros} of {every} outputs all zero or infinite, which every rescale keeps"] if zeros else []
    notes += ['inhomogeneous="free" does not keep the function: C was fitted'] if promised is None else []
    notes += [] if names else ["the plan scales nothing, so nothing was tried"]
    return Deviation(value, total, guards, tuple(notes))


def _fitted(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """The C > 0 with which C·before is nearest to after, in least squares over all outputs."""
    comparable = [(b, a) for b, a in pairs if _has_scale(b) and b.shape == a.shape]
    finite = [(b[keep], a[keep]) for b, a in comparable if (keep := torch.isfinite(b) & torch.isfinite(a)).any()]
    size = sum(float(b.abs().square().sum()) for b, _ in finite)
    constant = sum(float((a * b.conj()).sum().real) for b, a in finite) / size if size > 0 else 1.0
    return constant if constant > 0 else 1.0


def relative_deviation(before: Tensor, after: Tensor, constant: float) -> float:
    """‖after − C·before‖_∞ / ‖C·before‖_∞; infinities that agree count as equal, integers must be the same."""
    if before.shape != after.shape:
        return float("inf")
    if not _has_scale(before):
        return 0.0 if torch.equal(before, after) else float("inf")
    expected = constant * before
    finite = torch.isfinite(expected) & torch.isfinite(after)
    if not bool((finite | (expected == after)).all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    error, size = (after - expected)[finite].abs().max(), expected[finite].abs().max()
    return float(error / size) if size > 0 else float(error)


def _refuse(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """What has no values, or values that compare with nothing."""
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ModelError(
                f"{name} is on the meta device and has no values to compare; "
                "load the model's weights first, or verify the plan on a model that has them."
            )
        if not bool(torch.isfinite(parameter).all()):
            raise ModelError(f"{name} holds NaN or infinite values, so no output can be compared; load finite ones.")
    for leaf in pytree.tree_leaves((args, dict(kwargs))):
        if isinstance(leaf, Tensor) and _has_values(leaf) and bool(torch.isnan(leaf).any()):
            raise InputsError(f"the example inputs ({summary(args, kwargs)}) hold NaN; pass one batch without.")


def _informative(outputs: list[Tensor], model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The outputs, if a comparison of them says anything."""
    name, found = type(model).__name__, summary(args, kwargs)
    scaled = [out for out in outputs if _has_scale(out)]
    if not scaled:
        raise ModelError(f"{name} returns no floating-point tensor, so nothing is multiplied by a constant; return one.")
    scaled = [out for out in scaled if out.numel()]
    if not scaled:
        raise InputsError(f"{name} returns empty tensors for the example inputs ({found}); pass at least one example.")
    if any(bool(torch.isnan(out).any()) for out in scaled):
        raise ModelError(f"{name} returns NaN for the example inputs ({found}), which compares with nothing; pass others.")
    if all(_is_zero(out) for out in scaled):
        raise InputsError(
            f"{name} returns only zeros or infinities for the example inputs ({found}), which every rescale keeps; "
            "pass others, or verify after the first steps of training if a weight starts at zero."
        )
    return outputs


def _outputs(network: nn.Module, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> list[Tensor]:
    """The tensors that the float64 copy of the model returns, with the model's own randomness fixed."""
    inputs, named = pytree.tree_map_only(Tensor, lambda t: as_double(t).clone(), (args, dict(kwargs)))
    try:
        with aside(network), no_cache(network):
            torch.manual_seed(seed)
            leaves = pytree.tree_leaves(network(*inputs, **named))
    except Exception as error:
        if (rejected := rejection(model, args, kwargs)) is not None:
            raise rejected from error
        raise ModelError(
            f"{type(model).__name__} does not run in float64, in which it is compared ({first_line(error)}); "
            "let its forward take the precision of its inputs."
        ) from error
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    return [tensor if tensor.layout is torch.strided else tensor.to_dense() for tensor in tensors]


def _has_values(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_meta


def _has_scale(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_zero(tensor: Tensor) -> bool:
    """Whether it is the same after every rescale: nothing but zeros and infinities."""
    return _has_scale(tensor) and tensor.numel() > 0 and bool(((tensor == 0) | torch.isinf(tensor)).all())
