"""One rule per operator: the Lipschitz constant of its output, from those of what it reads.

    linear layer, convolution     ‖A‖_σ L           A the operator itself on its real input, by power iteration
    batch norm                    max |γ / √(v + ε)| L
    relu, tanh, gelu, …           steepest slope · L
    max-pooling                   √m L              m windows share an entry
    x + y,  cat(x, y)             L_x + L_y,  √(L_x² + L_y²)

Constants come in pairs, (spectral, Frobenius): they differ in what layers contribute. An operator without a rule, or a rule
that returns None, has no constant that we know.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from swr.diagnostics.operators import spectral_norm


@dataclass(frozen=True)
class Bounded:
    """A tensor that depends on the input: its constants, and the shape it has for the example."""

    constant: Tensor
    shape: torch.Size


@dataclass
class Call:
    """One operator in the network: what is called, the shape of its output; a layer leaves its two factors here."""

    target: Any
    shape: torch.Size
    factors: tuple[float, float] | None = None

    def layer(self, spectral: float, frobenius: float) -> Tensor:
        """The factors of a layer; rounding must not turn them round."""
        self.factors = (spectral, max(frobenius, spectral))
        return torch.tensor(self.factors, dtype=torch.float64)


Rule = Callable[..., Tensor | None]
R = TypeVar("R", bound=Rule)
_RULES: dict[str, Rule] = {}


def lookup(target: Any) -> Rule | None:
    """The rule of an operator, whatever its overload."""
    if target is python.getitem:
        return _select
    return _RULES.get(str(getattr(target, "overloadpacket", target)).removeprefix("aten."))


def _rule(names: str) -> Callable[[R], R]:
    def register(function: R) -> R:
        _RULES.update(dict.fromkeys(names.split(), function))
        return function

    return register


# Rearranging entries or leaving some out.
@_rule(
    """view _unsafe_view reshape flatten unflatten permute transpose t squeeze unsqueeze clone contiguous alias detach _to_copy
    to slice select narrow split split_with_sizes chunk unbind pixel_shuffle pixel_unshuffle channel_shuffle flip
    roll constant_pad_nd amax amin"""
)
def _select(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor:
    return x.constant


@_rule("dropout feature_dropout")
def _dropout(call: Call, x: Bounded, p: float, train: bool) -> Tensor | None:
    return None if train else x.constant


@_rule("expand expand_as repeat broadcast_to")
def _copies(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor:
    return _spread(call, x)


# Activations: the steepest slope, rounded up.
@_rule("relu abs neg tanh softplus hardtanh relu6 log_sigmoid celu clamp clamp_min clamp_max")
def _gentle(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor | None:
    return None if any(isinstance(y, Bounded) for y in (*others, *options.values())) else x.constant


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
def _steep(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor:
    return _SLOPES[call.target.overloadpacket.__name__] * x.constant


@_rule("leaky_relu")
def _leaky_relu(call: Call, x: Bounded, slope: float = 0.01) -> Tensor:
    return max(1.0, abs(slope)) * x.constant


@_rule("rrelu")
def _rrelu(call: Call, x: Bounded, lower: float = 1 / 8, upper: float = 1 / 3, *others: Any) -> Tensor:
    return max(1.0, abs(lower), abs(upper)) * x.constant


@_rule("elu")
def _elu(call: Call, x: Bounded, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    return abs(scale) * max(1.0, abs(alpha * input_scale)) * x.constant


@_rule("prelu _prelu_kernel")
def _prelu(call: Call, x: Bounded, slope: Tensor) -> Tensor:
    return max(1.0, float(slope.abs().max())) * x.constant


# Layers.
@_rule("linear")
def _linear(call: Call, x: Any, weight: Any, bias: Any = None) -> Tensor | None:
    if not isinstance(x, Bounded) or not isinstance(weight, Tensor) or isinstance(bias, Bounded):
        return None
    return call.layer(spectral_norm(weight), _frobenius(weight)) * x.constant


@_rule("matmul mm")
def _matmul(call: Call, x: Any, y: Any) -> Tensor | None:
    matrix, other = (x, y) if isinstance(x, Tensor) else (y, x)
    if not isinstance(matrix, Tensor) or not isinstance(other, Bounded) or matrix.ndim != 2:
        return None
    return call.layer(spectral_norm(matrix), _frobenius(matrix)) * other.constant


@_rule("addmm")
def _addmm(call: Call, bias: Any, x: Any, y: Any) -> Tensor | None:
    return None if isinstance(bias, Bounded) else _matmul(call, x, y)


@_rule("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
def _convolution(call: Call, x: Any, weight: Any, bias: Any = None, *others: Any, **options: Any) -> Tensor | None:
    if not isinstance(x, Bounded) or not isinstance(weight, Tensor) or isinstance(bias, Bounded):
        return None
    axes = weight.ndim - 2
    kernel = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    one = kernel.new_zeros(1, *x.shape[-axes - 1 :])  # one example, with or without a batch axis
    transposed = "transpose" in str(call.target)
    positions = (x.shape if transposed else call.shape)[-axes:]
    stride = _each(options.get("stride", others[0] if others else 1), axes)
    at = 4 if transposed else 2  # behind stride and padding; the transposed ones have output_padding and groups before it
    dilation = _each(options.get("dilation", others[at] if len(others) > at else 1), axes)
    shared = _windows(weight.shape[2:], stride, dilation, positions)
    spectral = spectral_norm(lambda v: call.target(v, kernel, None, *others, **options), one)
    return call.layer(spectral, math.sqrt(shared) * _frobenius(weight)) * x.constant


@_rule("_native_batch_norm_legit_no_training batch_norm")
def _batch_norm(
    call: Call, x: Any, weight: Tensor | None, bias: Any, mean: Any, var: Any, *others: Any, **options: Any
) -> Tensor | None:
    eps = others[-1] if isinstance(others[-1], float) else others[-2]
    if not isinstance(x, Bounded) or not isinstance(var, Tensor) or others[0] is True:
        return None
    gain = (torch.ones_like(var) if weight is None else weight).double() / (var.double() + eps).sqrt()
    factor = float(gain.abs().max())
    return call.layer(factor, factor) * x.constant


# Pooling.
@_rule("max_pool1d max_pool2d max_pool3d")
def _max_pool(
    call: Call, x: Bounded, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, *others: Any
) -> Tensor:
    axes = int(call.target.overloadpacket.__name__[-2])
    size = _each(kernel, axes)
    return math.sqrt(_windows(size, _each(stride or size, axes), _each(dilation, axes), call.shape[-axes:])) * x.constant


@_rule("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(call: Call, x: Bounded, *others: Any) -> Tensor:
    axes = int(call.target.overloadpacket.__name__[-2])
    shared = 1
    for n, out in zip(x.shape[-axes:], call.shape[-axes:], strict=True):
        reads = [0] * n
        for i in range(out):
            for j in range(i * n // out, -(-(i + 1) * n // out)):
                reads[j] += 1
        shared *= max(reads)
    return math.sqrt(shared) * x.constant


# Linear along the trailing axes, the same for every example and channel: the spectral norm of one of them.
@_rule(
    """avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d pad"""
)
def _spatial(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor:
    name = call.target.overloadpacket.__name__
    if name == "pad" and (len(others) < 2 or others[1] == "constant"):
        return x.constant
    axes = len(others[0]) // 2 if name == "pad" else int(name[-2])
    one = torch.zeros(1, 1, *x.shape[-axes:])
    return spectral_norm(lambda v: call.target(v, *others, **options), one) * x.constant


@_rule("sum mean")
def _sum(call: Call, x: Bounded, *others: Any, **options: Any) -> Tensor:
    entries = math.prod(x.shape) / max(math.prod(call.shape), 1)
    return (math.sqrt(entries) if call.target.overloadpacket.__name__ == "sum" else 1 / math.sqrt(entries)) * x.constant


# Where branches meet.
@_rule("add sub rsub")
def _add(call: Call, x: Any, y: Any, *others: Any, **options: Any) -> Tensor:
    alpha = abs(options.get("alpha", others[0] if others else 1))
    first, second = (alpha, 1) if "rsub" in str(call.target) else (1, alpha)
    total = torch.zeros(2, dtype=torch.float64)
    for part, factor in ((x, first), (y, second)):
        if isinstance(part, Bounded):
            total = total + factor * _spread(call, part)
    return total


@_rule("maximum minimum")
def _extremum(call: Call, *parts: Any) -> Tensor:
    return torch.stack([_spread(call, part) for part in parts if isinstance(part, Bounded)]).square().sum(0).sqrt()


@_rule("cat stack")
def _join(call: Call, parts: Sequence[Any], *others: Any, **options: Any) -> Tensor:
    return torch.stack([part.constant for part in parts if isinstance(part, Bounded)]).square().sum(0).sqrt()


@_rule("mul div")
def _scale(call: Call, x: Any, y: Any, **options: Any) -> Tensor | None:
    divides = "div" in str(call.target)
    if isinstance(x, Bounded) == isinstance(y, Bounded) or (divides and isinstance(y, Bounded)) or options:
        return None
    tensor, number = (x, y) if isinstance(x, Bounded) else (y, x)
    sizes = torch.as_tensor(number, dtype=torch.float64).abs()
    factor = 1 / sizes.min() if divides else sizes.max()
    return float(factor) * _spread(call, tensor)


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
