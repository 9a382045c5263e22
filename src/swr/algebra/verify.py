"""Measure how far a rescaled copy of a model is from proportional to the model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from swr.algebra.apply import multiply

if TYPE_CHECKING:
    from swr.algebra.plan import ScalePlan


def deviation(plan: ScalePlan, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> float:
    """The largest relative deviation of f_θ'(x) from C·f_θ(x) over all outputs, in float64."""
    plan.check(model)
    generator = torch.Generator().manual_seed(seed)
    targets = (torch.rand(len(plan.weights), generator=generator, dtype=torch.float64) * 2 - 1) * 0.7
    plain = copy.deepcopy(model).double()
    scaled = copy.deepcopy(plain)
    names = plan.scaled
    multiply(scaled, names, (plan.matrix(names) @ targets).exp())
    constant = float((plan.output_row @ targets).exp())
    args, kwargs = pytree.tree_map_only(Tensor, _double, (args, dict(kwargs)))
    before, after = (_outputs(network, args, kwargs, seed) for network in (plain, scaled))
    return max((relative_deviation(b, a, constant) for b, a in zip(before, after, strict=True)), default=0.0)


def relative_deviation(before: Tensor, after: Tensor, constant: float) -> float:
    """‖after − C·before‖_∞ / ‖C·before‖_∞; infinities that agree count as equal."""
    expected = constant * before
    finite = torch.isfinite(expected) & torch.isfinite(after)
    if not bool((finite | (expected == after) | (expected.isnan() & after.isnan())).all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    error, size = (after - expected)[finite].abs().max(), expected[finite].abs().max()
    return float(error / size) if size > 0 else float(error)


def _outputs(model: nn.Module, args: Any, kwargs: Any, seed: int) -> list[Tensor]:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        leaves = pytree.tree_leaves(model(*args, **kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
