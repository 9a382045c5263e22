"""The entry-wise l_{p,q} norm of a chain of layers, and the incoming weights of each of its units.

Neyshabur et al. (2015) number the units of a network and write |W_ij| for the weight from unit j to unit i:

    ‖W‖_{p,q} = (Σ_i (Σ_j |W_ij|^p)^{q/p})^{1/q}

The outer sum runs over the hidden and output units of all layers, the inner one over the inputs of unit i. The units of a
convolution are its channels, and every entry of its kernels counts once, however often the kernel is applied. Biases do not
count, as in Saul (2023), who rescales them with their units but minimises the norm of the weights.

The layers are read from an ``nn.Sequential``, which runs its modules in order. Any other model raises
:class:`swr.ModelError`.

References:
    L. K. Saul: Weight-balancing fixes and flows for deep learning, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from swr.algebra.chain import LAYERS
from swr.checks import at_least
from swr.errors import ModelError

# φ(a x) = a φ(x) for each unit separately and all a > 0, for any shape of the input.
_UNITWISE = (
    nn.Identity,
    nn.ReLU,
    nn.LeakyReLU,
    nn.PReLU,
    nn.RReLU,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
)
# The same, where the units are channels.
_SPATIAL = (
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._LPPoolNd,
    nn.modules.padding._ReflectionPadNd,
    nn.modules.padding._ReplicationPadNd,
    nn.ZeroPad1d,
    nn.ZeroPad2d,
    nn.ZeroPad3d,
    nn.Upsample,
)


def entrywise_norm(model: nn.Module, p: float, q: float) -> float:
    """‖W‖_{p,q} of a network.

    >>> net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> net[0].weight.data = torch.tensor([[3.0, 4.0]])
    >>> net[2].weight.data = torch.tensor([[12.0]])
    >>> entrywise_norm(net, 1, 1), entrywise_norm(net, 2, 2), entrywise_norm(net, 2, 1)
    (19.0, 13.0, 17.0)

    Args:
        model: an ``nn.Sequential`` of linear layers or convolutions with homogeneous modules between them.
        p: the order of the sum over the inputs of a unit, at least 1.
        q: the order of the sum over the units, at least 1.

    Raises:
        ModelError: the model is not such a chain.
        OptionError: p or q is below 1.
    """
    check_orders(p, q)
    return norm_of([layer.masses(p) for layer in layers_of(model)], p, q)


def norm_of(masses: Sequence[Tensor], p: float, q: float) -> float:
    """‖W‖_{p,q} from the incoming weights of every layer's units.

    Args:
        masses: the result of :meth:`Layer.masses` for each layer.
        p: the order of the inner sum.
        q: the order of the outer sum.
    """
    return math.pow(sum(float(mass.sum(1).pow(q / p).sum()) for mass in masses), 1 / q)


def check_orders(p: float, q: float) -> None:
    """Raise :class:`swr.OptionError` unless p and q are at least 1, so that they define a norm."""
    for name, value in (("p", p), ("q", q)):
        at_least(value, f"{name} of an l_p,q norm", 1)


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of a chain: its units, and the units of the layer before it."""

    name: str
    module: nn.Linear | _ConvNd
    units: int
    before: int
    """units of the layer before; after a flattened convolution each of them has several entries"""
    first: bool
    """whether it reads the inputs of the network, which are never rescaled"""

    def masses(self, p: float) -> Tensor:
        """Σ |w|^p over all entries between two units: [units, before], float64, on the CPU.

        The inputs of the first layer count as one unit: [units, 1].
        """
        weight = self.module.weight.detach().cpu().reshape(self._blocks)
        inputs = 1 if self._transposed else 2
        dims = (inputs, 3) if self.first else (3,)
        found: Tensor = torch.linalg.vector_norm(weight, p, dim=dims, dtype=torch.float64).pow_(p)
        if self.first:
            return found.reshape(-1, 1)
        if self._transposed:
            found = found.transpose(1, 2)
        return torch.block_diag(*found) if len(found) > 1 else found[0]

    @torch.no_grad()
    def scale(self, units: Tensor, before: Tensor) -> None:
        """W_ij <- W_ij a_i / a_j, b_i <- b_i a_i, in place.

        Args:
            units: a_i, the factors of this layer's units.
            before: a_j, the factors of the units before.
        """
        groups = self._blocks[0]
        factors = units.view(groups, -1, 1) / before.view(groups, 1, -1)
        if self._transposed:
            factors = factors.transpose(1, 2)
        weight, bias = self.module.weight, self.module.bias
        weight.mul_(factors.unsqueeze(-1).expand(self._blocks).reshape(weight.shape).to(weight))
        if bias is not None:
            bias.mul_(units.to(bias))

    @property
    def _transposed(self) -> bool:
        return isinstance(self.module, _ConvTransposeNd)

    @property
    def _blocks(self) -> tuple[int, int, int, int]:
        """The weight's shape: groups, units, units before (the other way round if transposed), entries between two units."""
        groups = self.module.groups if isinstance(self.module, _ConvNd) else 1
        to, of = self.units // groups, self.before // groups
        entries = self.module.weight.numel() // (groups * to * of)
        return (groups, of, to, entries) if self._transposed else (groups, to, of, entries)


def layers_of(model: nn.Module) -> list[Layer]:
    """The layers of a chain, first to last. Modules between two layers must act on each unit separately.

    Modules before the first layer and after the last may be any without parameters.
    """
    found: list[Layer] = []
    between: list[tuple[str, nn.Module]] = []
    for name, module in _leaves(model, ""):
        if not isinstance(module, LAYERS):
            between.append((name, module))
            continue
        if any(module.weight is layer.module.weight for layer in found):
            raise ModelError(f"the weight of {name} is used by two layers, so their units cannot be rescaled separately.")
        if isinstance(module, nn.Linear):
            entries, units = module.in_features, module.out_features
        else:
            entries, units = module.in_channels, module.out_channels
        if found and not _matches(found[-1], between, module, entries):
            last = found[-1]
            raise ModelError(
                f"{type(module).__name__} at {name} with {entries} inputs does not match the {last.units} units of "
                f"{type(last.module).__name__} at {last.name} one to one."
            )
        found.append(Layer(name, module, units, found[-1].units if found else entries, first=not found))
        between = []
    if not found:
        raise ModelError(f"{type(model).__name__} has no linear layer or convolution, so there are no weights to balance.")
    return found


def _leaves(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules of nested ``nn.Sequential`` in the order in which they run."""
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        for key, child in zip(module._modules, module, strict=True):
            yield from _leaves(child, f"{name}.{key}" if name else key)
        return
    where = f"{type(module).__name__} at {name or 'the model'}"
    plain = any(type(module).forward is kind.forward for kind in LAYERS) and isinstance(module.weight, nn.Parameter)
    if isinstance(module, LAYERS) != plain or any(True for _ in module.children()):
        raise ModelError(
            f"{where} is not a chain of plain layers; balancing supports nn.Sequential only. If its layers run one after "
            "the other, pass them in this order, for example nn.Sequential(net.fc1, nn.ReLU(), net.fc2)."
        )
    if not isinstance(module, (*LAYERS, nn.PReLU)) and any(True for _ in module.parameters()):
        raise ModelError(
            f"{where} has parameters of its own; balancing supports linear layers and convolutions with homogeneous "
            "activations and pooling between them."
        )
    yield name, module


def _matches(last: Layer, between: list[tuple[str, nn.Module]], module: nn.Module, entries: int) -> bool:
    """Whether the inputs of a layer are the units of the layer before it, separately and in order.

    Args:
        last: the layer before.
        between: the modules between the two, with their names.
        module: the layer.
        entries: the size of the layer's input.
    """
    channels = isinstance(last.module, _ConvNd)
    several = False
    for name, kind in between:
        if isinstance(kind, nn.Flatten) and (kind.start_dim, kind.end_dim) == (1, -1):
            channels, several = False, channels or several
        elif not (isinstance(kind, _UNITWISE) or (channels and isinstance(kind, _SPATIAL))):
            raise ModelError(
                f"{type(kind).__name__} at {name} does not pass on the scale of each unit separately, "
                f"so the units of {last.name} cannot be rescaled."
            )
    same_axis = channels == isinstance(module, _ConvNd)
    return same_axis and (entries % last.units == 0 if several else entries == last.units)
