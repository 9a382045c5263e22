"""CReLU: a change of the architecture after which no unit can fall silent (Shang et al., 2016; Abbas et al., 2023)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from swr.errors import ModelError
from swr.methods.tools.fresh import Initialiser, own_initialiser, redraw
from swr.probe import evaluated

_FEATURES_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm)
_WIDTHS: dict[type[nn.Module], str] = {
    nn.Linear: "in_features",
    _ConvNd: "in_channels",
    _NormBase: "num_features",
    nn.GroupNorm: "num_channels",
    nn.LayerNorm: "normalized_shape",
    nn.RMSNorm: "normalized_shape",
}
_LAYERS = tuple(_WIDTHS)


class CReLU(nn.Module):
    """[relu(z), relu(-z)] along one axis, which becomes twice as long.

    >>> CReLU()(torch.tensor([1.0, -2.0]))
    tensor([1., 0., 0., 2.])

    Args:
        axis: of the units: 1 for images, -1 for vectors and tokens.
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, z: Tensor) -> Tensor:
        """Both halves."""
        return torch.cat([z.relu(), (-z).relu()], self.axis)

    def extra_repr(self) -> str:
        """The axis."""
        return f"axis={self.axis}"


def crelu(model: nn.Module, example_inputs: Any, *, initialise: Initialiser = own_initialiser, seed: int = 0) -> nn.Module:
    """A copy of the network with CReLU in place of every ``nn.ReLU``, and wider layers after it.

        h = [relu(z), relu(-z)]

    Every unit has exactly one live half wherever z ≠ 0. Layers that now get more inputs are made wider and re-initialised;
    everything else is that of the model.

    >>> net = crelu(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.randn(5, 4))
    >>> net[1:]
    Sequential(
      (1): CReLU(axis=-1)
      (2): Linear(in_features=6, out_features=2, bias=True)
    )

    A ReLU that is the network's output stays, and so does one that is called as a function. What cannot become wider (a
    residual sum, grouped convolutions) is an error.

    When:
        Once, before training. It is a transform and no method: there is nothing to attach and no state.

    Touches:
        The architecture. The fan-in of the layers after it doubles while half of their inputs are 0, so that torch's default
        initialisation halves the variance of their outputs; the network has more parameters than before (to compare at equal
        size, give it fewer units). Both halves count as units of their own in measures of dormancy.

    Args:
        model: its activations are modules.
        example_inputs: a batch of inputs; a tuple for several arguments.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        seed: of the new draws.

    References:
        W. Shang, K. Sohn, D. Almeida, H. Lee, 2016, "Understanding and Improving Convolutional Neural Networks via Concatenated
        Rectified Linear Units"; against the loss of plasticity Z. Abbas et al., 2023, "Loss of Plasticity in Continual Deep
        Reinforcement Learning".
    """
    model = copy.deepcopy(model)
    axes = _axes_of_activations(model, example_inputs)
    if not axes:
        raise ModelError("the model calls no nn.ReLU before its output, so there is nothing to replace; make them modules.")
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if child in axes:
                setattr(parent, name, CReLU(axes[child]))
    redraw(_widen(model, example_inputs), torch.Generator().manual_seed(seed), initialise)
    return model


def _axes_of_activations(model: nn.Module, example_inputs: Any) -> dict[nn.Module, int]:
    """Every ReLU that runs, with the axis of its units: that of the last layer before it."""
    axes: dict[nn.Module, int] = {}
    results: list[tuple[nn.Module, Tensor]] = []
    last = -1

    def see(module: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
        nonlocal last
        if isinstance(module, _LAYERS):
            last = -1 if isinstance(module, _FEATURES_LAST) or output.ndim == 2 else 1
            return
        axis = -1 if output.ndim == 2 else last
        if axes.setdefault(module, axis) != axis:
            raise ModelError("one nn.ReLU is used after convolutions and after fully connected layers; give each its own.")
        results.append((module, output))

    outputs = _run(model, example_inputs, [(m, see) for m in model.modules() if isinstance(m, (*_LAYERS, nn.ReLU))])
    for module, output in results:
        if output is outputs:
            axes.pop(module, None)
    return axes


def _widen(model: nn.Module, example_inputs: Any) -> list[nn.Module]:
    """Give every layer as many inputs as now arrive; returns those that changed."""
    changed: dict[nn.Module, dict[str, Tensor]] = {}

    def fit(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if _resized(module, inputs[0]):
            changed[module] = dict(module.named_buffers(recurse=False))

    hooks = [m.register_forward_pre_hook(fit) for m in model.modules() if isinstance(m, _LAYERS)]
    try:
        evaluated(model, example_inputs)
    except RuntimeError as error:
        raise ModelError(
            f"the network does not run with twice the units ({str(error).splitlines()[0]}); "
            "a sum with a stream of fixed width, as in a residual block, is the usual cause."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    for module, buffers in changed.items():  # the run has put back those that it began with
        for name, buffer in buffers.items():
            setattr(module, name, buffer)
    return list(changed)


def _resized(layer: nn.Module, given: Tensor) -> bool:
    """Make a layer as wide as what it is given, with zeros for parameters; False if it fits."""
    size = given.shape[-1 if isinstance(layer, _FEATURES_LAST) else 1]
    attribute = next(name for kind, name in _WIDTHS.items() if isinstance(layer, kind))
    width: Any = getattr(layer, attribute)
    if size == (width[-1] if isinstance(width, tuple) else width):
        return False
    if getattr(layer, "groups", 1) > 1 or (isinstance(width, tuple) and len(width) > 1):
        raise ModelError(f"{layer} after a ReLU cannot become wider: it treats its inputs in groups, or several axes at once.")
    setattr(layer, attribute, (size,) if isinstance(width, tuple) else size)
    sums = isinstance(layer, (nn.Linear, _ConvNd))
    axis = 1 if sums and not isinstance(layer, _ConvTransposeNd) else 0
    for name in ("weight",) if sums else ("weight", "bias", "running_mean", "running_var"):
        old = getattr(layer, name, None)
        if old is not None:
            new = old.new_zeros([size if d == axis else n for d, n in enumerate(old.shape)])
            setattr(layer, name, nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new)
    return True


def _run(model: nn.Module, example_inputs: Any, watched: list[tuple[nn.Module, Any]]) -> Any:
    hooks = [module.register_forward_hook(see) for module, see in watched]
    try:
        return evaluated(model, example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
