"""The methods by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any

from torch import nn

from swr.errors import OptionError, SWRError
from swr.methods.base import Method
from swr.methods.full_reset import FullReset
from swr.methods.head_reset import HeadReset
from swr.methods.l2 import L2
from swr.methods.l2_init import L2Init
from swr.methods.rescaled import SWR, SWRReinit
from swr.methods.shrink_perturb import ShrinkPerturb
from swr.methods.vanilla import Vanilla

REGISTRY: dict[str, type[Method]] = {
    "vanilla": Vanilla,
    "l2": L2,
    "l2-init": L2Init,
    "shrink-perturb": ShrinkPerturb,
    "head-reset": HeadReset,
    "swr": SWR,
    "swr-reinit": SWRReinit,
    "full-reset": FullReset,
}
"""a new method is one more entry"""


class UnknownName(SWRError):
    """A name that is in no list, with the names that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], also: str = "") -> None:
        known = tuple(known)
        plain = "".join(filter(str.isalnum, name.lower()))
        spelled = {"".join(filter(str.isalnum, word.lower())): word for word in known}
        guess = difflib.get_close_matches(plain, spelled, n=1)
        hint = f"did you mean {spelled[guess[0]]}? " if guess else ""
        super().__init__(f"there is no {kind} {name!r}: {hint}known are {', '.join(known)}{also}.")
        self.kind, self.name, self.known = kind, name, known


def names() -> tuple[str, ...]:
    """The methods' names."""
    return tuple(REGISTRY)


def find(name: str) -> type[Method]:
    """The method of that name."""
    if name not in REGISTRY:
        raise UnknownName("method", name, REGISTRY)
    return REGISTRY[name]


def build(name: str, model: nn.Module, example_inputs: Any = None, **hyper: Any) -> Method:
    """A method for this model.

    >>> method = build("l2", nn.Linear(2, 1), coefficient=1e-3)
    >>> method.title
    'L2'

    name: one of :func:`names`.
    model: the network, as it was initialised.
    example_inputs: a batch of inputs, for methods that trace the model.
    hyper: the method's hyper-parameters, and ``seed``.
    """
    method = find(name)
    try:
        inspect.signature(method).bind(model, example_inputs, **hyper)
    except TypeError as error:
        accepted = [p for p in inspect.signature(method).parameters if p not in ("model", "example_inputs")]
        raise OptionError(f"{name}: {error}; its options are {', '.join(accepted)}.") from None
    return method(model, example_inputs, **hyper)
