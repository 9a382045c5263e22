"""The "normalise" of normalise-and-project: a network with a normalisation layer before every nonlinearity."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from swr.errors import ModelError
from swr.methods.tools.layers import NORMALISATION, is_convolution
from swr.probe import evaluated

ACTIVATIONS: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ReLU6, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus,
    nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Softsign, nn.LogSigmoid,
)  # fmt: skip
"""the modules that count as nonlinearities"""


def normalised(model: nn.Module, example_inputs: Any) -> nn.Module:
    """A copy of the network with a normalisation layer before every nonlinearity, and no bias just before it.

        f(W x + b)  becomes  f(γ (W x - mean) / deviation + β)

    Each activation module becomes ``nn.Sequential(norm, activation)``: LayerNorm over the features, after convolutions
    GroupNorm with one group, which does the same over channels and positions. Where a normalisation layer is in front
    already, and at the network's output, nothing changes. The other weights are those of the model.

    >>> net = normalised(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.randn(5, 4))
    >>> [type(module).__name__ for module in net[1]], net[0].bias
    (['LayerNorm', 'ReLU'], None)

    Nonlinearities that are called as functions inside ``forward()`` are not seen.

    Args:
        model: its activations are modules, each used once.
        example_inputs: a batch of inputs; a tuple for several arguments.
    """
    model = copy.deepcopy(model)
    activations = [module for module in model.modules() if isinstance(module, ACTIVATIONS)]
    producers: dict[int, nn.Module] = {}
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []  # keeps the tensors, so that their identities stay their own

    def see(module: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
        if inputs and isinstance(output, Tensor):
            calls.append((module, inputs[0], output))

    leaves = [module for module in model.modules() if not any(True for _ in module.children())]
    hooks = [module.register_forward_hook(see) for module in leaves]
    try:
        outputs = evaluated(model, example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    for module in activations:
        used = sum(1 for called, _, _ in calls if called is module)
        if used > 1:
            raise ModelError(
                f"one {type(module).__name__} is used at {used} places, which need normalisation layers of their own; "
                "give the network one activation module for each."
            )
    for module, given, output in calls:
        if isinstance(module, ACTIVATIONS) and output is not outputs:
            _insert(model, module, given, producers.get(id(given)))
        producers[id(output)] = module
    if not any(isinstance(module, ACTIVATIONS) for module, _, _ in calls):
        raise ModelError("the model calls no activation module, so there is nothing to normalise before; see ACTIVATIONS.")
    return model


def _insert(model: nn.Module, activation: nn.Module, given: Tensor, producer: nn.Module | None) -> None:
    if isinstance(producer, NORMALISATION):
        return
    spatial = given.ndim > 3 or (given.ndim == 3 and producer is not None and is_convolution(producer))
    norm = nn.GroupNorm(1, given.shape[1]) if spatial else nn.LayerNorm(given.shape[-1])
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if child is activation:
                setattr(parent, name, nn.Sequential(norm.to(given), activation))
    if isinstance(producer, nn.Linear) or (producer is not None and is_convolution(producer)):
        producer.register_parameter("bias", None)
