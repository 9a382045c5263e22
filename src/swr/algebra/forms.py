"""Log-scales as linear forms, and the equations they must satisfy.

Multiply every parameter p by exp(θ_p). The logarithm of the factor by which a tensor of the network is multiplied
is then a linear form Σ k_p θ_p. This file has the arithmetic of such forms, and what the algebra knows about a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import torch


class Form:
    """A linear form Σ k_p θ_p in the log-scales of the parameters.

    >>> w, b = Form.of("w"), Form.of("b")
    >>> w + w - b
    2*w - b
    >>> (w - w).is_zero
    True
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[str, float] | None = None) -> None:
        self.terms: dict[str, float] = {name: k for name, k in (terms or {}).items() if k != 0}

    @classmethod
    def of(cls, name: str) -> Form:
        """The form θ_name itself."""
        return cls({name: 1.0})

    @property
    def is_zero(self) -> bool:
        """Whether the form is 0, so that the scale never changes."""
        return not self.terms

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for name, k in other.terms.items():
            terms[name] = terms.get(name, 0.0) + k
        return Form(terms)

    def __sub__(self, other: Form) -> Form:
        return self + other * -1.0

    def __mul__(self, k: float) -> Form:
        return Form({name: k * value for name, value in self.terms.items()})

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self.terms.items())

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        signed = [("-" if k < 0 else "+", name if abs(k) == 1 else f"{abs(k):g}*{name}") for name, k in self]
        return " ".join(f"{sign} {term}" for sign, term in signed).removeprefix("+ ") or "0"


ZERO = Form()


class Anything(Enum):
    """The type of :data:`ANY`."""

    ANY = "ANY"

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = Anything.ANY
"""the form of a tensor of zeros and infinities: no factor changes it, so it fits every form"""

Scale = Form | Anything
"""what is known about the log-scale of a tensor"""


def settled(scale: Scale) -> Form:
    """The form itself; 0 for :data:`ANY`.

    >>> settled(ANY)
    0
    """
    return ZERO if scale is ANY else scale


@dataclass(frozen=True)
class Equation:
    """A constraint: the form must be zero.

    Attributes:
        form: the form.
        reason: why it must be zero, for error messages and tables.
        fixes: whether an operator that is not homogeneous demands it of its input; otherwise two scales must agree, and the
            reason for a fixed scale may be elsewhere.
    """

    form: Form
    reason: str
    fixes: bool = False


@dataclass(frozen=True)
class Value:
    """What the algebra knows about one tensor of the traced network.

    Attributes:
        form: its log-scale, or ANY.
        leaves: the parameters that it is computed from, if it is computed from parameters and constants only.
        pure: whether it is computed from parameters and constants only; a constant is pure and has no leaves.
        tensor: its value, if it is a constant and small enough to be stored.
        buffer: its name, if it is a buffer of the model.
    """

    form: Scale
    leaves: frozenset[str] = field(default=frozenset())
    pure: bool = False
    tensor: torch.Tensor | None = None
    buffer: str | None = None

    @property
    def is_constant(self) -> bool:
        """Whether it depends neither on an input nor on a parameter that can be scaled."""
        return self.pure and not self.leaves


def constant(tensor: torch.Tensor | None) -> Value:
    """A tensor that no parameter scales; zeros and infinities fit any form, everything else has form 0.

    >>> constant(torch.zeros(3)).form is ANY
    True
    >>> constant(torch.ones(3)).form
    0
    """
    fits_any = tensor is not None and not tensor.is_meta and bool(((tensor == 0) | torch.isinf(tensor)).all())
    return Value(ANY if fits_any else ZERO, pure=True, tensor=tensor)
