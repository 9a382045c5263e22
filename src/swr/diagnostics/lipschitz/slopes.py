"""One rule per operator: the Lipschitz constant of its output, from the constants of its inputs.

    linear layer, convolution     ‖A‖_σ L           A: the operator itself on its real input, by power iteration
    batch norm                    max |γ / √(v + ε)| L
    relu, tanh, gelu, …           steepest slope · L
    max-pooling                   √m L              m: windows that share an entry
    x + y,  cat(x, y)             L_x + L_y,  √(L_x² + L_y²)

Constants come in pairs, (spectral, Frobenius), which differ in the factors of the layers. A rule gets the arguments of the
operator by the names of its schema. If there is no rule, or the rule returns None, no constant is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, fx

from swr.algebra.walk import packet
from swr.power_iteration import spectral_norm


@dataclass(frozen=True)
class Bounded:
    """A tensor that depends on the input.

    Attributes:
        constant: its spectral and its Frobenius constant.
        shape: its shape for the example inputs.
    """

    constant: Tensor
    shape: torch.Size


@dataclass
class Call:
    """One operator in the network.

    Attributes:
        node: its node in the traced graph.
        shape: the shape of its output.
        factors: the spectral and the Frobenius factor, set by the rules of layers.
    """

    node: fx.Node
    shape: torch.Size
    factors: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """The name of the operator, without its overload."""
        return packet(self.node.target)

    def run(self, /, **arguments: Any) -> Any:
        """Call the operator itself."""
        return self.node.target(**arguments)  # type: ignore[operator]

    def layer(self, spectral: float, frobenius: float) -> Tensor:
        """Record the factors of a layer; rounding must not make the Frobenius factor the smaller one."""
        self.factors = (spectral, max(frobenius, spectral))
        return torch.tensor(self.factors, dtype=torch.float64)


Rule = Callable[..., Tensor | None]
R = TypeVar("R", bound=Rule)
_RULES: dict[str, Rule] = {}


def lookup(target: Any) -> Rule | None:
    """The rule of an operator, the same for all its overloads; None if there is none."""
    return _RULES.get(packet(target))


def _rule(names: str) -> Callable[[R], R]:
    def register(function: R) -> R:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


def _alone(arguments: dict[str, Any]) -> Bounded | None:
    """The first argument of an operator, if it depends on the input and no other argument does; else None."""
    subject = arguments["self"] if "self" in arguments else arguments["input"]
    return subject if isinstance(subject, Bounded) and sum(isinstance(y, Bounded) for y in arguments.values()) == 1 else None


# Rearranging entries or leaving some out.
@_rule(
    """view _unsafe_view reshape flatten unflatten permute transpose t squeeze unsqueeze clone contiguous alias detach _to_copy
    to slice select narrow split split_with_sizes chunk unbind pixel_shuffle pixel_unshuffle channel_shuffle flip
    roll constant_pad_nd amax amin"""
)
def _select(call: Call, **arguments: Any) -> Tensor | None:
    x = _alone(arguments)
    return None if x is None else x.constant


@_rule("dropout feature_dropout")
def _dropout(call: Call, input: Bounded, train: bool, **others: Any) -> Tensor | None:
    return None if train else input.constant


@_rule("expand repeat broadcast_to")
def _copies(call: Call, self: Bounded, **others: Any) -> Tensor:
    return _spread(call, self)


@_rule("expand_as")
def _copies_as(call: Call, self: Any, other: Any) -> Tensor:
    return _spread(call, self) if isinstance(self, Bounded) else torch.zeros(2, dtype=torch.float64)


# Activations: the steepest slope, rounded up.
@_rule("relu abs neg tanh softplus hardtanh relu6 log_sigmoid celu clamp clamp_min clamp_max")
def _gentle(call: Call, **arguments: Any) -> Tensor | None:
    x = _alone(arguments)
    return None if x is None else x.constant


_SLOPES = {
    "sigmoid": 0.25,
    "gelu": 1.129,
    "silu": 1.0999,
    "mish": 1.0885,
    "hardswish": 1.5,
    "selu": 1.7581,
    "hardsigmoid": 0.16667,
}


@_rule(" ".join(_SLOPES))
def _steep(call: Call, self: Bounded, **others: Any) -> Tensor:
    return _SLOPES[call.name] * self.constant


@_rule("leaky_relu")
def _leaky_relu(call: Call, self: Bounded, negative_slope: float) -> Tensor:
    return max(1.0, abs(negative_slope)) * self.constant


@_rule("rrelu")
def _rrelu(call: Call, self: Bounded, lower: float, upper: float, **others: Any) -> Tensor:
    return max(1.0, abs(lower), abs(upper)) * self.constant


@_rule("elu")
def _elu(call: Call, self: Bounded, alpha: float, scale: float, input_scale: float) -> Tensor:
    return abs(scale) * max(1.0, abs(alpha * input_scale)) * self.constant


@_rule("prelu _prelu_kernel")
def _prelu(call: Call, self: Any, weight: Any) -> Tensor | None:
    if not isinstance(self, Bounded) or not isinstance(weight, Tensor):
        return None
    return max(1.0, float(weight.abs().max())) * self.constant


# Layers.
@_rule("linear")
def _linear(call: Call, input: Any, weight: Any, bias: Any) -> Tensor | None:
    if not isinstance(input, Bounded) or not isinstance(weight, Tensor) or isinstance(bias, Bounded):
        return None
    return call.layer(spectral_norm(weight), _frobenius(weight)) * input.constant


@_rule("matmul")
def _matmul(call: Call, self: Any, other: Any) -> Tensor | None:
    return _times_matrix(call, self, other)


@_rule("mm")
def _mm(call: Call, self: Any, mat2: Any) -> Tensor | None:
    return _times_matrix(call, self, mat2)


@_rule("addmm")
def _addmm(call: Call, self: Any, mat1: Any, mat2: Any, beta: float, alpha: float) -> Tensor | None:
    return None if isinstance(self, Bounded) else _times_matrix(call, mat1, mat2, abs(alpha))


def _times_matrix(call: Call, x: Any, y: Any, factor: float = 1.0) -> Tensor | None:
    matrix, other = (x, y) if isinstance(x, Tensor) else (y, x)
    if not isinstance(matrix, Tensor) or not isinstance(other, Bounded) or matrix.ndim != 2:
        return None
    return call.layer(factor * spectral_norm(matrix), factor * _frobenius(matrix)) * other.constant


_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


@_rule("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
def _convolution(call: Call, input: Any, weight: Any, bias: Any, stride: Any, dilation: Any, **others: Any) -> Tensor | None:
    if not isinstance(input, Bounded) or not isinstance(weight, Tensor) or isinstance(bias, Bounded):
        return None
    axes = weight.ndim - 2
    kernel = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    one = kernel.new_zeros(1, *input.shape[-axes - 1 :])  # one example, with or without a batch axis
    positions = (input.shape if call.name in _TRANSPOSED else call.shape)[-axes:]
    shared = _windows(weight.shape[2:], _each(stride, axes), _each(dilation, axes), positions)
    spectral = spectral_norm(
        lambda v: call.run(input=v, weight=kernel, bias=None, stride=stride, dilation=dilation, **others), one
    )
    return call.layer(spectral, math.sqrt(shared) * _frobenius(weight)) * input.constant


@_rule("_native_batch_norm_legit_no_training batch_norm")
def _batch_norm(call: Call, input: Any, weight: Any, running_var: Any, eps: float, **others: Any) -> Tensor | None:
    if not isinstance(input, Bounded) or not isinstance(running_var, Tensor) or others.get("training") is True:
        return None
    gain = (torch.ones_like(running_var) if weight is None else weight).double() / (running_var.double() + eps).sqrt()
    factor = float(gain.abs().max())
    return call.layer(factor, factor) * input.constant


# Pooling and other operators along the trailing axes.
_AXES = {
    name: axes
    for axes, names in (
        (1, "max_pool1d adaptive_max_pool1d avg_pool1d adaptive_avg_pool1d upsample_nearest1d upsample_linear1d"),
        (2, "max_pool2d adaptive_max_pool2d avg_pool2d adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d"),
        (3, "max_pool3d adaptive_max_pool3d avg_pool3d adaptive_avg_pool3d upsample_nearest3d upsample_trilinear3d"),
    )
    for name in names.split()
}


@_rule("max_pool1d max_pool2d max_pool3d")
def _max_pool(call: Call, self: Bounded, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Tensor:
    axes = _AXES[call.name]
    size = _each(kernel_size, axes)
    return math.sqrt(_windows(size, _each(stride or size, axes), _each(dilation, axes), call.shape[-axes:])) * self.constant


@_rule("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(call: Call, self: Bounded, output_size: Any) -> Tensor:
    axes = _AXES[call.name]
    shared = 1
    for n, out in zip(self.shape[-axes:], call.shape[-axes:], strict=True):
        reads = [0] * n
        for i in range(out):
            for j in range(i * n // out, -(-(i + 1) * n // out)):
                reads[j] += 1
        shared *= max(reads)
    return math.sqrt(shared) * self.constant


# Linear along the trailing axes, the same for every example and channel: the spectral norm of one of them.
@_rule(
    """avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d"""
)
def _spatial(call: Call, **arguments: Any) -> Tensor:
    return _along_axes(call, arguments, _AXES[call.name])


@_rule("pad")
def _pad(call: Call, **arguments: Any) -> Tensor:
    if arguments["mode"] == "constant":
        constant: Tensor = arguments["self"].constant
        return constant
    return _along_axes(call, arguments, len(arguments["pad"]) // 2)


def _along_axes(call: Call, arguments: dict[str, Any], axes: int) -> Tensor:
    subject = "self" if "self" in arguments else "input"
    x: Bounded = arguments[subject]
    one = torch.zeros(1, 1, *x.shape[-axes:])
    return spectral_norm(lambda v: call.run(**{**arguments, subject: v}), one) * x.constant


@_rule("sum")
def _sum(call: Call, self: Bounded, **others: Any) -> Tensor:
    return math.sqrt(_summed(call, self)) * self.constant


@_rule("mean")
def _mean(call: Call, self: Bounded, **others: Any) -> Tensor:
    return 1 / math.sqrt(_summed(call, self)) * self.constant


def _summed(call: Call, x: Bounded) -> float:
    """Entries of the input for each entry of the output."""
    return math.prod(x.shape) / max(math.prod(call.shape), 1)


# Where branches meet.
@_rule("add sub")
def _add(call: Call, self: Any, other: Any, alpha: float) -> Tensor:
    return _total(call, (self, 1.0), (other, abs(alpha)))


@_rule("rsub")
def _rsub(call: Call, self: Any, other: Any, alpha: float) -> Tensor:
    return _total(call, (self, abs(alpha)), (other, 1.0))


def _total(call: Call, *parts: tuple[Any, float]) -> Tensor:
    total = torch.zeros(2, dtype=torch.float64)
    for part, factor in parts:
        if isinstance(part, Bounded):
            total = total + factor * _spread(call, part)
    return total


@_rule("maximum minimum")
def _extremum(call: Call, self: Any, other: Any) -> Tensor:
    parts = [_spread(call, part) for part in (self, other) if isinstance(part, Bounded)]
    return torch.stack(parts).square().sum(0).sqrt()


@_rule("cat stack")
def _join(call: Call, tensors: Sequence[Any], dim: int) -> Tensor:
    return torch.stack([part.constant for part in tensors if isinstance(part, Bounded)]).square().sum(0).sqrt()


@_rule("mul")
def _mul(call: Call, self: Any, other: Any) -> Tensor | None:
    if isinstance(self, Bounded) == isinstance(other, Bounded):
        return None
    x, number = (self, other) if isinstance(self, Bounded) else (other, self)
    return float(_sizes(number).max()) * _spread(call, x)


@_rule("div")
def _div(call: Call, self: Any, other: Any, rounding_mode: str | None = None) -> Tensor | None:
    if not isinstance(self, Bounded) or isinstance(other, Bounded) or rounding_mode is not None:
        return None
    return float(1 / _sizes(other).min()) * _spread(call, self)


def _sizes(number: Any) -> Tensor:
    return torch.as_tensor(number, dtype=torch.float64).abs()


def _spread(call: Call, x: Bounded) -> Tensor:
    """The constant of x after its entries were broadcast to the output's shape."""
    return math.sqrt(max(math.prod(call.shape) / max(math.prod(x.shape), 1), 1.0)) * x.constant


def _windows(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], positions: Sequence[int]) -> int:
    """How many windows can share one entry of the input."""
    return math.prod(
        min(-(-k // (s // math.gcd(s, d))), out) for k, s, d, out in zip(kernel, stride, dilation, positions, strict=True)
    )


def _frobenius(weight: Tensor) -> float:
    return float(torch.linalg.vector_norm(weight.detach(), dtype=torch.float64))


def _each(value: Any, axes: int) -> list[int]:
    values = list(value) if isinstance(value, Sequence) else [value]
    return values * axes if len(values) == 1 else values
