"""What an optimizer keeps of a parameter that was reset: one explicit policy for every method that resets.

    keep                     nothing is forgotten: the old moments push the new entries
    clear_moments            the reset entries' moments return to their first values; the step count stays
    clear_moments_and_step   the same, and the tensor's step count returns to 0; where an optimizer counts the steps of every
                             entry, those of the reset entries alone
    clear_all                the optimizer starts again with the whole tensor

PyTorch keeps one step count a tensor, so its Adam cannot start again with a part of one. Under a constant gradient and Adam's
defaults the first update of the reset entries after ``clear_moments`` is 2.5 η at step 1000 (3.2 η late in training), and
5.2 η (6.6 η) 12 steps later, before it settles at η. After ``clear_moments_and_step`` the reset entries move by η, but
the untouched entries of the same tensor by 0.32 η, and ten steps later by 0.15 η. Momentum of SGD has no such trouble.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.optim import Optimizer

from swr.errors import OptionError

Policy = Literal["keep", "clear_moments", "clear_moments_and_step", "clear_all"]
"""what the optimizer forgets, as above"""

POLICIES: tuple[Policy, ...] = get_args(Policy)

_COUNTERS = ("step", "mu_product", "eta", "mu")  # what follows the number of steps; in torch one number a tensor


def check_policy(value: Policy) -> Policy:
    """One of :data:`POLICIES`."""
    if value not in POLICIES:
        raise OptionError(f"optimizer_state must be one of {', '.join(POLICIES)}, found {value!r}.")
    return value


@torch.no_grad()
def forget(
    optimizer: Optimizer | None, parameter: Tensor, mask: Tensor | None = None, policy: Policy = "clear_moments"
) -> None:
    """Make the optimizer forget what it knows of the entries of a parameter that were reset.

    Every tensor of the parameter's shape in its state counts as moments: Adam's (with amsgrad), SGD's momentum, RMSprop's
    squares and whatever another optimizer keeps. Moments of another shape (Adafactor's) are cleared with the whole tensor only.
    Nothing is read back from the device.

    >>> weight = torch.nn.Parameter(torch.ones(2, 2))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> forget(optimizer, weight, torch.tensor([[True], [False]]))
    >>> optimizer.state[weight]["momentum_buffer"]
    tensor([[0., 0.],
            [1., 1.]])

    Args:
        optimizer: None does nothing.
        parameter: the very object that the optimizer holds.
        mask: the entries that were reset, of a shape that broadcasts to the parameter's; None: all of them.
        policy: one of :data:`POLICIES`.
    """
    check_policy(policy)
    if optimizer is None or policy == "keep" or parameter not in optimizer.state:
        return
    if policy == "clear_all" or (mask is None and policy == "clear_moments_and_step"):
        del optimizer.state[parameter]
        return
    state = optimizer.state[parameter]
    first = _first_values(optimizer, parameter)
    for key, value in state.items():
        begin = first.get(key, 0)
        if key in _COUNTERS and policy != "clear_moments_and_step":
            continue
        if isinstance(value, Tensor) and value.shape == parameter.shape:  # a step count for every entry is one of these
            if mask is None:
                value.fill_(begin)
            else:
                value.masked_fill_(mask.to(value.device), begin)
        elif key in _COUNTERS:
            state[key] = value.fill_(begin) if isinstance(value, Tensor) else type(value)(begin)
        elif isinstance(value, Tensor) and mask is None and value.is_floating_point():
            value.zero_()  # moments of another shape: factored ones


def _first_values(optimizer: Optimizer, parameter: Tensor) -> dict[str, Any]:
    """What torch's optimizers begin with where it is not zero."""
    group = next(group for group in optimizer.param_groups if any(p is parameter for p in group["params"]))
    first: dict[str, Any] = {"mu_product": 1.0, "mu": 1.0, "eta": group["lr"]}
    if "initial_accumulator_value" in group:  # Adagrad
        first["sum"] = group["initial_accumulator_value"]
    if "etas" in group:  # Rprop
        first["step_size"] = group["lr"]
    return first
