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
from swr.methods.composition import combination
from swr.methods.tools.part_options import divided, joint_symbols, options_of

REGISTRY: dict[str, type[Method]] = {method.name: method for method in METHODS}
"""by name; one of your own can be added while the process lives"""

ALSO = ", MODULE:CLASS for one of your own, and NAME+NAME for several at once"
"""what else is a name"""


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
    """The methods' names; ``NAME+NAME`` combines several."""
    return tuple(REGISTRY)


def parts(name: str) -> tuple[str, ...]:
    """The names of the methods that a name combines.

    >>> parts("swr+hare-tortoise"), parts("l2")
    (('swr', 'hare-tortoise'), ('l2',))
    """
    return (name,) if name in REGISTRY else tuple(name.split("+"))


def find(name: str) -> type[Method]:
    """The method of that name, or the class that ``MODULE:CLASS`` stands for; modules of the current folder are found.

    >>> find("swr+hare-tortoise").title
    'SWR + Hare & Tortoise'
    """
    if name in REGISTRY:
        return REGISTRY[name]
    if len(several := parts(name)) > 1:
        return combination(tuple((part, find(part)) for part in several))
    if ":" in name:
        return _imported(name)
    raise UnknownName("method", name, REGISTRY, ALSO)


def describe(name: str) -> tuple[str, Mapping[str, str]]:
    """The title and the symbols of a method, without importing anything: a file of results may name any module.

    >>> describe("l2")
    ('L2', {'coefficient': 'λ'})

    A ``MODULE:CLASS`` that is not imported yet goes by its own name.
    """
    if name in REGISTRY:
        return REGISTRY[name].title, REGISTRY[name].symbols
    if len(several := parts(name)) > 1:
        known = [describe(part) for part in several]
        symbols = {part: own for part, (_, own) in zip(several, known, strict=True)}
        return " + ".join(title for title, _ in known), joint_symbols(symbols)
    module, colon, attribute = name.partition(":")
    if not (colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise UnknownName("method", name, REGISTRY, ALSO)
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

    >>> build("l2+hare-tortoise", nn.Linear(2, 1), coefficient=1e-3, every=100).title
    'L2 + Hare & Tortoise'

    Args:
        name: one of :func:`names`; several with ``+`` between them are combined, see :mod:`swr.methods.composition`.
        model: the network, as it was initialised.
        example_inputs: a batch of inputs, for methods that trace the model.
        hyper: the method's hyper-parameters, and ``seed``. Of several methods each takes those that it alone has; the others
            are written with its name, ``**{"swr.coefficient": 1e-3, "l2.coefficient": 1e-2}``.
    """
    check_options(name, hyper)
    return find(name)(model, example_inputs, **hyper)


def check_options(name: str, hyper: Mapping[str, Any]) -> None:
    """Refuse hyper-parameters that a method does not have.

    >>> check_options("l2", {"coefficient": 1e-3})
    """
    if len(several := parts(name)) > 1:
        find(name)  # refuses methods that contradict each other
        given = divided({part: find(part) for part in several}, {key: value for key, value in hyper.items() if key != "seed"})
        for part, own in given.items():
            check_options(part, own)
        return
    kind = find(name)
    try:
        inspect.signature(kind).bind(None, None, **hyper)
    except TypeError as error:
        raise OptionError(f"{name}: {error}; its options are {', '.join(options_of(kind))}.") from None


def addressed(name: str, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """The same hyper-parameters, those of several methods under one name each.

    >>> addressed("swr+hare-tortoise", {"coefficient": 1e-3})
    {'swr.coefficient': 0.001}
    """
    if len(several := parts(name)) == 1:
        return dict(hyper)
    given = divided({part: find(part) for part in several}, hyper)
    return {f"{part}.{option}": value for part, own in given.items() for option, value in own.items()}
