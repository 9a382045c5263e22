"""An upper bound on a network's Lipschitz constant: the product of its layers' spectral norms, and the Frobenius bound.

Each tensor x_i of the traced network gets a constant L_i with ‖x_i(a) − x_i(b)‖ ≤ L_i ‖a − b‖ in evaluation mode, from
the constants of its inputs; :mod:`swr.diagnostics.lipschitz.slopes` has the rule of every operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from swr.algebra.graph import Traced, module_path, trace
from swr.algebra.walk import Source, Visitor, walk
from swr.diagnostics.lipschitz.slopes import Bounded, Call, lookup
from swr.errors import ModelError
from swr.probe import as_args, undisturbed


@dataclass(frozen=True)
class LipschitzBound:
    """‖f_θ(a) − f_θ(b)‖ ≤ bound · ‖a − b‖ in evaluation mode."""

    spectral: float
    """∏ ‖A_l‖_σ for a chain of layers with 1-Lipschitz activations"""
    frobenius: float
    """∏ ‖W_l‖ for an MLP (the paper's corollary); never smaller"""
    layers: Mapping[str, tuple[float, float]]
    """both factors of every layer, by the name of its weight"""


def lipschitz_bound(model: nn.Module, inputs: Any) -> LipschitzBound:
    """Bound the Lipschitz constant of a network by the spectral norms of its layers, and by their Frobenius norms.

        k_θ ≤ ∏_l ‖A_l‖_σ ≤ ∏_l √m_l ‖W_l‖

    A_l is the layer as an operator: the matrix of a linear layer, or a convolution on its real input with its stride, padding,
    dilation and groups. For a convolution ‖W_l‖ alone is no bound, because up to m_l windows read one entry of the input; for a
    linear layer m_l = 1, which is the paper's corollary. Batch norm counts as the diagonal matrix that it is in evaluation
    mode. Branches that are added or concatenated are covered. Power iteration converges from below, so the bound holds up to
    its tolerance, 1e-4 in each factor.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> net[0].weight.data = torch.diag(torch.tensor([3.0, 4.0]))
    >>> net[2].weight.data = torch.tensor([[0.0, 2.0]])
    >>> bound = lipschitz_bound(net, torch.zeros(1, 2))
    >>> round(bound.spectral, 3), round(bound.frobenius, 3)
    (8.0, 10.0)

    Args:
        model: any module; it is left as it was.
        inputs: a tensor or a tuple of positional inputs, for their shapes; one example is enough.

    Raises:
        ModelError: an operator has no known constant, such as layer norm, softmax, attention or a product of two
            activations.
    """
    return bound_along(traced_for_bound(model, inputs), model)


def traced_for_bound(model: nn.Module, inputs: Any) -> Traced:
    """The network in evaluation mode as a graph; it stays valid when the weights change."""
    with undisturbed(model):
        return trace(model, as_args(inputs))


def bound_along(traced: Traced, model: nn.Module) -> LipschitzBound:
    """The bound for the current weights of the model."""
    known, layers = constants_along(traced, model)
    ends = [known[node].constant for node in traced.outputs if isinstance(known[node], Bounded)]
    total = torch.stack(ends).square().sum(0).sqrt() if ends else torch.zeros(2)
    return LipschitzBound(float(total[0]), float(total[1]), layers)


@torch.no_grad()
def constants_along(traced: Traced, model: nn.Module) -> tuple[dict[fx.Node, Any], dict[str, tuple[float, float]]]:
    """The constant of every node that depends on an input, the value of every other node, and the factors of the layers."""
    constants = _Constants(traced, dict(model.named_parameters()), dict(model.named_buffers(remove_duplicate=False)))
    return walk(traced, constants), constants.layers


@dataclass(frozen=True)
class _Constants(Visitor):
    """The walk's interpreter: a :class:`Bounded` for every tensor that depends on an input, the tensor itself for others."""

    traced: Traced
    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    values: dict[fx.Node, Any] = field(default_factory=dict)
    layers: dict[str, tuple[float, float]] = field(default_factory=dict)

    def placeholder(self, node: fx.Node, source: Source) -> Any:
        if source.kind == "parameter":
            return self.parameters[source.name].detach()
        if source.kind == "buffer":
            return self.buffers[source.name]
        return source.tensor if source.kind == "constant" else Bounded(torch.ones(2, dtype=torch.float64), _shape(node))

    def is_constant(self, value: Any) -> bool:
        return not isinstance(value, Bounded)

    def fold(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def item(self, node: fx.Node, whole: Any, index: Any) -> Any:
        return Bounded(whole.constant, _shape(node)) if isinstance(whole, Bounded) else whole[index]

    def call(self, node: fx.Node, arguments: dict[str, Any]) -> Any:
        if not any(isinstance(self.values[n], Bounded) for n in node.all_input_nodes):
            return node.target(**arguments)  # type: ignore[operator]  # random numbers
        rule = lookup(node.target)
        call = Call(node, _shape(node))
        found = rule(call, **arguments) if rule is not None else None
        if found is None:
            raise ModelError(
                f"no Lipschitz constant is known for {node.target} at {module_path(node) or 'the model'}; the bound covers "
                "linear layers, convolutions, batch norm, poolings, activations with a bounded slope, sums and concatenations."
            )
        if call.factors is not None:
            read = [n for n in node.all_input_nodes if n.name in self.traced.parameters]
            name = self.traced.parameters[max(read, key=lambda n: len(_shape(n))).name] if read else node.name
            self.layers[name if name not in self.layers else f"{name} ({node.name})"] = call.factors
        return Bounded(found, call.shape)


def _shape(node: fx.Node) -> torch.Size:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, (tuple, list)) else value
    return first.shape if isinstance(first, Tensor) else torch.Size()
