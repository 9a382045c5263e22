"""The activations of a network's units in one run, and the features that its last layer reads.

Calls of torch's functions are intercepted, so ``F.relu(x)`` counts as well as ``nn.ReLU()``, for any batch and any control
flow. Units are on the last axis after a linear layer and on the channel axis after a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from swr.probe import as_args, undisturbed

ACTIVATIONS = """relu relu6 leaky_relu rrelu prelu elu celu selu gelu silu mish softplus hardtanh hardswish hardsigmoid
    tanh sigmoid threshold softsign tanhshrink logsigmoid""".split()  # noqa: SIM905
"""functions that count as activations, in place or not; gates and softmax inside fused layers are not recorded"""

ROWS = 1024
"""how many rows of each activation are kept at most"""

_CHANNEL_AXIS = {"linear": -1, **{f"conv{t}{d}d": -1 - d for t in ("", "_transpose") for d in (1, 2, 3)}}


class Watched(TorchFunctionMode):
    """Run a model once in evaluation mode and record its activations.

    >>> run = Watched(model, x)
    >>> {name: units.shape for name, units in run.magnitudes.items()}
    {'1': torch.Size([4])}
    >>> run.features.shape
    torch.Size([2, 144])

    Args:
        model: any module; it is left as it was.
        inputs: a tensor or a tuple of positional inputs.
        keep: also keep the activations themselves, in :attr:`units`.

    Attributes:
        magnitudes: E|h_i| over examples and positions for every unit i, by the name of the activation. The name is the path of
            its module; for a functional activation, the path of the module that called it and the function's name. An
            activation that is the model's output is not hidden, so it is left out.
        weights: the weight of the last linear layer or convolution before each activation, by the same names; an activation
            before the first one, or after a weight that is not a parameter of the model, is left out.
        units: with ``keep``, each activation as a matrix: one column per unit, one row per example or position, at most
            ``ROWS`` of them at equal distances.
        features: the input of the last linear layer or convolution, before it is flattened.
    """

    def __init__(self, model: nn.Module, inputs: Any, *, keep: bool = False) -> None:
        super().__init__()
        self.magnitudes: dict[str, Tensor] = {}
        self.weights: dict[str, str] = {}
        self.units: dict[str, Tensor] = {}
        self._keep = keep
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._weight: str | None = None
        self.features: Tensor | None = None
        self._axis: int | None = None
        self._last: tuple[str, Any] = ("", None)
        self._inside: list[tuple[str, bool]] = [("", False)]
        hooks = []
        for path, module in model.named_modules():
            leaf = not any(True for _ in module.children())
            hooks.append(module.register_forward_pre_hook(self._enter(path, leaf)))
            hooks.append(module.register_forward_hook(self._leave, always_call=True))
        try:
            with undisturbed(model), torch.no_grad(), self:
                result = model(*as_args(inputs))
        finally:
            for hook in hooks:
                hook.remove()
        name, activated = self._last
        if any(activated is leaf for leaf in pytree.tree_leaves(result)):
            for found in (self.magnitudes, self.weights, self.units):
                found.pop(name, None)
        self._last = ("", None)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call one of torch's functions, and record it if it is a layer or an activation."""
        options = dict(kwargs or {})
        called = getattr(func, "__name__", "")
        read = args[0] if args else options.get("input")
        result = func(*args, **options)
        if called in _CHANNEL_AXIS:
            self._axis = _CHANNEL_AXIS[called]
            self.features = read
            self._weight = self._names.get(id(args[1] if len(args) > 1 else options.get("weight")))
        elif called.rstrip("_") in ACTIVATIONS and isinstance(result, Tensor) and result.ndim > 1:
            name = self._name(called.rstrip("_"))
            units = _by_unit(result, self._axis)
            self.magnitudes[name] = units.abs().mean(0)
            if self._keep:
                self.units[name] = units[:: -(-len(units) // ROWS)].clone()
            if self._weight is not None:
                self.weights[name] = self._weight
            self._last = (name, result)
        return result

    def _name(self, function: str) -> str:
        path, leaf = self._inside[-1]
        name = path if leaf and path else f"{path}.{function}".lstrip(".")
        count = 1
        while (unique := name if count == 1 else f"{name}_{count}") in self.magnitudes:
            count += 1
        return unique

    def _enter(self, path: str, leaf: bool) -> Any:
        return lambda module, args: self._inside.append((path, leaf))

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside.pop()


def _by_unit(h: Tensor, axis: int | None) -> Tensor:
    """Activations as a matrix in float32 or better: one column per unit, one row per example and position."""
    if axis is None:
        axis = 1 if h.ndim > 3 else -1
    unit = axis % h.ndim if -axis <= h.ndim else h.ndim - 1
    return h.detach().to(torch.promote_types(h.dtype, torch.float32)).movedim(unit, -1).flatten(0, -2)
