"""What a penalty adds to the gradients between backward and the optimizer's step.

    ∇ <- ∇ + ∇(λ R)

These are the gradients that autograd would give if λ R were a term of the loss. They are added once per step, after gradient
accumulation, after the all-reduce of data-parallel training, and in the scale that the optimizer expects.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.errors import AttachError


def held_by(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters that this optimizer updates now: it holds them, and they are not frozen.

    Raises:
        AttachError: the optimizer holds none of them, so that a penalty on them would do nothing.
    """
    ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
    held = [p for p in parameters if id(p) in ids]
    if parameters and not held:
        raise AttachError(
            "the optimizer holds none of the parameters that the method was built for: they were replaced (fully_shard, a new "
            "layer); build the method again, after that."
        )
    return [p for p in held if p.requires_grad]


def differentiate(penalty: Tensor, parameters: Sequence[nn.Parameter]) -> tuple[list[nn.Parameter], list[Tensor]]:
    """∇ of a penalty, and the parameters that it depends on."""
    if not penalty.requires_grad or not parameters:  # all that it depends on is frozen
        return [], []
    try:
        gradients = torch.autograd.grad(penalty, list(parameters), allow_unused=True)
    except RuntimeError as error:
        raise AttachError(
            "this penalty cannot be differentiated between backward() and the optimizer's step; if it depends on activations, "
            'call attach(optimizer, penalty="loss") and add penalty() to the loss.'
        ) from error
    pairs = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
    if not pairs:
        raise AttachError(
            "the penalty depends on none of the parameters that the optimizer holds: they were replaced (fully_shard, a new "
            "layer), or belong to another optimizer; build the method again, after that."
        )
    return [p for p, _ in pairs], [g for _, g in pairs]


@torch.no_grad()
def add_to_gradients(
    optimizer: Optimizer, parameters: Sequence[nn.Parameter], terms: Sequence[Tensor], factor: float = 1.0
) -> None:
    """∇ <- ∇ + factor x term, for every parameter.

    A parameter without a gradient, on which the loss does not depend, gets one.

    Args:
        optimizer: whose step follows. A fused optimizer under a GradScaler divides by the scale later, in its step.
        parameters: in any order.
        terms: one for each.
        factor: of all terms.
    """
    if not parameters:
        return
    terms = list(terms)
    scale = getattr(optimizer, "grad_scale", None)
    if scale is not None:
        terms = list(torch._foreach_mul(terms, scale.to(terms[0].device)))
    torch._foreach_add_([_gradient(p) for p in parameters], terms, alpha=factor)


def _gradient(p: nn.Parameter) -> Tensor:
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    elif p.grad.is_sparse:  # of an embedding; the penalty reaches every row
        p.grad = p.grad.to_dense()
    return p.grad
