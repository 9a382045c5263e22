"""Every layer of the trained network beside the same layer of fresh ones. These numbers describe; they decide nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import nn

from swr.diagnostics.activations import Watched
from swr.diagnostics.diagnosis.new_task import Batch
from swr.diagnostics.diagnosis.trial import Curve
from swr.diagnostics.duplicates import duplicates
from swr.diagnostics.gradients import LossFunction, loss_on
from swr.diagnostics.layer_norms import layer_weights, norms_by_name
from swr.diagnostics.ranks import effective_rank

DORMANT = 0.025
"""τ: a unit at or below this share of its layer's mean activation is silent"""


@dataclass(frozen=True)
class Units:
    """The units of one layer.

    Attributes:
        silent: the fraction of dormant units.
        duplicate: the fraction of duplicate units.
        rank: the effective rank of their activations.
    """

    silent: float
    duplicate: float
    rank: float


@dataclass(frozen=True)
class Layer:
    """A layer of the trained network, compared with the mean over fresh networks.

    Attributes:
        name: of the layer, as its module is called in the model.
        weight: the name of its weight.
        norm: ‖W‖ / ‖W_fresh‖.
        units: of the trained network; None if no activation follows the layer.
        fresh_units: the mean over fresh networks.
        gradient: the ratio of ‖∂L/∂W‖ on the new task before the first step; None if either is zero.
        update: the ratio of the update ratios ‖ΔW‖ / ‖W‖ while it trains.
        recovers: the share of the gap that closes if this layer alone is re-initialised; None if that was not tried.
    """

    name: str
    weight: str
    norm: float | None
    units: Units | None
    fresh_units: Units | None
    gradient: float | None
    update: float | None
    recovers: float | None = None


def layers_of(model: nn.Module) -> dict[str, str]:
    """The layers to look at, by the name of their weight: the matrices and kernels."""
    return {
        name: (name.removesuffix(".weight") if name != "weight" else "the model")
        for name, p in layer_weights(model).items()
        if p.ndim >= 2
    }


def table(
    model: nn.Module,
    fresh: Sequence[nn.Module],
    batch: Batch,
    loss_fn: LossFunction,
    trained_curves: Sequence[Curve],
    fresh_curves: Sequence[Curve],
) -> tuple[Layer, ...]:
    """Measure the trained network and fresh ones on a batch of the new task; none of them is changed."""
    ours, others = _Measured(model, batch, loss_fn), [_Measured(each, batch, loss_fn) for each in fresh]
    updates, fresh_updates = _updates(trained_curves), _updates(fresh_curves)
    return tuple(
        Layer(
            label,
            name,
            _ratio(ours.norms[name], [each.norms[name] for each in others]),
            ours.units.get(name),
            _mean([each.units[name] for each in others if name in each.units]),
            _ratio(ours.gradients.get(name), [each.gradients[name] for each in others if name in each.gradients]),
            _ratio(updates.get(name), [fresh_updates[name]] if name in fresh_updates else []),
        )
        for name, label in layers_of(model).items()
    )


class _Measured:
    """Norms, units and gradients of one network."""

    def __init__(self, model: nn.Module, batch: Batch, loss_fn: LossFunction) -> None:
        self.norms = norms_by_name(layer_weights(model))
        seen = Watched(model, batch[0], keep=True)
        self.units = {}
        for activation, weight in seen.weights.items():
            magnitudes, units = seen.magnitudes[activation], seen.units[activation]
            silent = float((magnitudes <= DORMANT * magnitudes.mean()).double().mean())
            self.units[weight] = Units(silent, duplicates(units) / units.shape[1], effective_rank(units))
        with loss_on(model, batch, loss_fn) as (loss, leaves):
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        self.gradients = norms_by_name({name: g for name, g in zip(leaves, found, strict=True) if g is not None})


def transplanted(model: nn.Module, donor: nn.Module, weight: str) -> nn.Module:
    """A copy of a model in which the module that owns a weight has the donor's parameters, its bias included."""
    found = copy.deepcopy(model)
    owner, _, _ = weight.rpartition(".")
    values = dict(donor.get_submodule(owner).named_parameters(recurse=False))
    with torch.no_grad():
        for name, p in found.get_submodule(owner).named_parameters(recurse=False):
            p.copy_(values[name])
            p.requires_grad_(values[name].requires_grad)
    return found


def mixed(model: nn.Module, donor: nn.Module, share: float) -> nn.Module:
    """A copy of a model after shrink and perturb: θ <- (1 − share) θ + share θ', with θ' of the donor."""
    found = copy.deepcopy(model)
    values = dict(donor.named_parameters())
    with torch.no_grad():
        for name, p in found.named_parameters():
            p.lerp_(values[name].to(p), share)
    return found


def with_recoveries(layers: Sequence[Layer], recoveries: Mapping[str, float]) -> tuple[Layer, ...]:
    """The layers with what re-initialising each of them recovers."""
    return tuple(replace(layer, recovers=recoveries.get(layer.weight)) for layer in layers)


def _updates(curves: Sequence[Curve]) -> dict[str, float]:
    return {
        name: fmean(c.updates[name] for c in curves) for name in curves[0].updates if all(name in c.updates for c in curves)
    }


def _ratio(value: float | None, others: Sequence[float]) -> float | None:
    mean = fmean(others) if others else 0.0
    return value / mean if value is not None and mean > 0 else None


def _mean(units: Sequence[Units]) -> Units | None:
    if not units:
        return None
    return Units(fmean(u.silent for u in units), fmean(u.duplicate for u in units), fmean(u.rank for u in units))
