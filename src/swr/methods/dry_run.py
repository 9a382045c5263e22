"""Run a model once to see what passes through it, and leave no trace."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def dry_run(model: nn.Module, example_inputs: Any) -> Any:
    """The model's outputs as for evaluation: running statistics, random numbers and training modes stay as they are.

    Forward hooks are called.

    Args:
        example_inputs: a batch of inputs; a tuple for several arguments.
    """
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return model(*(example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    finally:
        for module in training:
            module.training = True
