"""The methods by name."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from swr.errors import OptionError, SWRError
from swr.importing import MissingAttribute, load_attribute
from swr.methods.all_methods import METHODS
from swr.methods.base import Method

REGISTRY: dict[str, type[Method]] = {method.name: method for method in METHODS}
"""by name; one of your own can be added while the process lives"""


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
    """The method of that name, or the class that ``MODULE:CLASS`` stands for; modules of the current folder are found."""
    if name in REGISTRY:
        return REGISTRY[name]
    if ":" in name:
        return _imported(name)
    raise UnknownName("method", name, REGISTRY, ", and MODULE:CLASS for one of your own")


def describe(name: str) -> tuple[str, Mapping[str, str]]:
    """The title and the symbols of a method, without importing anything: a file of results may name any module.

    >>> describe("l2")
    ('L2', {'coefficient': 'λ'})

    A ``MODULE:CLASS`` that is not imported yet goes by its own name.
    """
    if name in REGISTRY:
        return REGISTRY[name].title, REGISTRY[name].symbols
    module, colon, attribute = name.partition(":")
    if not (colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise UnknownName("method", name, REGISTRY, ", and MODULE:CLASS for one of your own")
    found = getattr(sys.modules.get(module), attribute, None)
    if isinstance(found, type) and issubclass(found, Method):
        return found.title or name, found.symbols
    return name, {}


def _imported(name: str) -> type[Method]:
    module, _, attribute = name.partition(":")
    try:
        found = load_attribute(name)
    except MissingAttribute:
        found = None
    except (ImportError, ValueError) as error:
        raise OptionError(f"the method {name} cannot be imported ({error}): run this in the folder of its module.") from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise OptionError(f"{module} has no method {attribute!r}: name a class there that is derived from swr.methods.Method.")
    return found


def build(name: str, model: nn.Module, example_inputs: Any = None, **hyper: Any) -> Method:
    """A method for this model.

    >>> method = build("l2", nn.Linear(2, 1), coefficient=1e-3)
    >>> method.title
    'L2'

    Args:
        name: one of :func:`names`.
        model: the network, as it was initialised.
        example_inputs: a batch of inputs, for methods that trace the model.
        hyper: the method's hyper-parameters, and ``seed``.
    """
    check_options(name, hyper)
    return find(name)(model, example_inputs, **hyper)


def check_options(name: str, hyper: Mapping[str, Any]) -> None:
    """Refuse hyper-parameters that a method does not have.

    >>> check_options("l2", {"coefficient": 1e-3})
    """
    signature = inspect.signature(find(name))
    try:
        signature.bind(None, None, **hyper)
    except TypeError as error:
        accepted = [p for p in signature.parameters if p not in ("model", "example_inputs")]
        raise OptionError(f"{name}: {error}; its options are {', '.join(accepted)}.") from None
