"""Which rescalings a network really has, found numerically and without any algebra.

Multiply each parameter p by exp(θ_p). To first order the outputs move by J θ, and the function stays proportional to
itself exactly where J θ = c f for some number c. So the admissible θ are the null space of [J, -f], whatever the
network is made of; what an analysis reads off a graph can be held against it.
"""

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from swr.algebra.blocks import tensor_of

from .network import Inputs

STEP = 1e-7  # of central differences: small enough that no unit crosses the kink of its relu, rounding stays near 1e-8
NOISE = 1e-6  # relative singular values below are zero


def floating_outputs(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    leaves = pytree.tree_leaves(model(*inputs))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def admissible(model: nn.Module, inputs: Inputs, weights: list[str], others: list[str]) -> Tensor:
    """The orthogonal projector, over the weights, onto the log-scales that some scaling of the others completes.

    Running statistics are taken afresh from one batch at every evaluation, so that they follow by themselves.
    """
    tracked = [module for module in model.modules() if getattr(module, "running_mean", None) is not None]
    for module in tracked:
        module.momentum = 1.0
    whole = dict(model.named_parameters())
    parameters = [tensor_of(name, whole) for name in [*weights, *others]]
    reference, batch = inputs(), inputs()

    def evaluate() -> Tensor:
        torch.manual_seed(0)
        if tracked:
            model.train()(*reference)
        return torch.cat([out.flatten() for out in floating_outputs(model.eval(), batch)])

    with torch.no_grad():
        while len(evaluate()) < 2 * len(parameters):
            batch = tuple(torch.cat(pair) for pair in zip(batch, inputs(), strict=True))
        columns = [-evaluate()] + [derivative(evaluate, parameter) for parameter in parameters]
    _, singular, basis = torch.linalg.svd(torch.stack(columns, 1), full_matrices=False)
    null = basis[singular < NOISE * singular[0]].T[1 : 1 + len(weights)]
    directions, sizes, _ = torch.linalg.svd(null, full_matrices=False)
    directions = directions[:, sizes > 1e-3]
    return directions @ directions.T


def derivative(evaluate, parameter: Tensor) -> Tensor:
    """Of the outputs with respect to the parameter's log-scale."""
    kept = parameter.clone()
    sides = []
    for sign in (1, -1):
        parameter.copy_(kept * torch.exp(torch.tensor(sign * STEP, dtype=torch.float64)))
        sides.append(evaluate())
    parameter.copy_(kept)
    return (sides[0] - sides[1]) / (2 * STEP)
