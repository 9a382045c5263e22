"""Several methods on one model, as one method.

The parts act one after another at each moment:

    penalties                  all are added before any before_step(), because they belong to the loss
    before_step()              in order
    step()                     in order: what reads the optimizer's update first, what averages the weights last
    new_task()                 in order
    close()                    in reverse

"In order" is the order in which the parts are named, except for methods that say when their turn is (:attr:`Method.turn`).
Hyperball reads the update that the optimizer has made, so nothing else may have changed the weights since. An average is one
of the weights that a step leaves: SWR rescales them first, then they are averaged. Decoupled decay acts before the step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.checks import choice
from swr.errors import AttachError, OptionError, StateError
from swr.hooks import Added, Around, Handle, attachable
from swr.methods.base import Batches, LossFunction, Method, PenaltyIn, Turn
from swr.methods.tools.part_options import divided, joint_symbols


class Composition(Method):
    """Several methods that act on the same model; :func:`compose` and names such as ``swr+l2`` make them.

    Args:
        example_inputs: for the parts that trace the model.
        hyper: options of the parts: ``every``, or ``redo.every`` if several parts have an option of this name.
    """

    named: ClassVar[tuple[tuple[str, type[Method]], ...]] = ()
    """names and methods, in the order in which they are named"""
    kinds: ClassVar[Mapping[str, type[Method]]] = {}
    """the methods by name, in the order in which they act"""
    parts: dict[str, Method]
    """the same, built"""

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0, **hyper: Any) -> None:
        given = divided(self.kinds, hyper)
        parts = {
            name: kind(model, example_inputs, **{"seed": _seed_of(seed, place, name), **given[name]})
            for place, (name, kind) in enumerate(self.kinds.items())
        }
        self._hold(parts, seed)

    @classmethod
    def holding(cls, parts: Mapping[str, Method]) -> Composition:
        """A composition of methods that are built already."""
        composition = cls.__new__(cls)
        composition._hold({name: parts[name] for name in cls.kinds}, seed=0)
        return composition

    def _hold(self, parts: dict[str, Method], seed: int) -> None:
        super().__init__(next(iter(parts.values())).model, seed=seed)
        self.parts = parts
        self._penalised = [part for part in parts.values() if type(part).penalty is not Method.penalty]

    def penalty(self) -> Tensor | None:
        """The sum of the parts' penalties."""
        return _sum([part.penalty() for part in self._penalised])

    def add_penalty(self, optimizer: Optimizer) -> None:
        """Add the gradients of all penalties."""
        for part in self._penalised:
            part.add_penalty(optimizer)

    def added_penalty(self) -> Tensor | None:
        """The sum of the values whose gradients were added."""
        return _sum([part.added_penalty() for part in self._penalised])

    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """What every part does before a step."""
        for part in self.parts.values():
            part.before_step(optimizer)

    def step(self) -> None:
        """What every part does after a step."""
        for part in self.parts.values():
            part.step()

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """What every part does at a new task; each sees all of the data."""
        batches = list(batches) if isinstance(batches, Iterator) else batches
        for part in self.parts.values():
            part.new_task(batches, loss_fn)

    def attach(self, optimizer: Optimizer, *, penalty: PenaltyIn = "gradients") -> Handle:
        """Attach every part; ``remove()`` on the handle detaches all of them."""
        optimizer = attachable(optimizer, self.model, self._handle)
        choice(penalty, "penalty", get_args(PenaltyIn))
        adds = penalty == "gradients" and bool(self._penalised)
        handle = _Handles(optimizer, self.add_penalty if adds else None, self.added_penalty if adds else None)
        try:
            for part in self.parts.values():
                part._composed = True
                handle.parts.append(part.attach(optimizer, penalty=penalty))
        except BaseException:
            handle.remove()
            raise
        finally:
            for part in self.parts.values():
                part._composed = False
        self._penalty_in, self._handle = penalty, handle
        return handle

    def close(self) -> None:
        """Close the parts, the last one first."""
        for part in reversed(self.parts.values()):
            part.close()
        super().close()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"parts": {name: part.state_dict() for name, part in self.parts.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        found = state["parts"]
        if set(found) != set(self.parts):
            raise StateError(f"this is the state of {' + '.join(found)}, not of {' + '.join(self.parts)}.")
        for name, part in self.parts.items():
            part.load_state_dict(found[name])

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self.named,), vars(self)


class _Handles(Handle):
    """The attachment of a composition: removing it removes those of the parts."""

    parts: list[Handle]

    def __init__(self, optimizer: Optimizer, before: Around | None, added: Added | None) -> None:
        self.parts = []
        super().__init__(optimizer, before, added=added)

    def remove(self) -> None:
        for part in reversed(self.parts):
            part.remove()
        super().remove()


def compose(*methods: Method) -> Composition:
    """Several methods of one model as one method.

    >>> from swr.methods import L2, HareTortoise, compose
    >>> model = nn.Linear(2, 1)
    >>> method = compose(L2(model, coefficient=1e-3), HareTortoise(model))
    >>> method.title
    'L2 + Hare & Tortoise'
    >>> handle = method.attach(torch.optim.SGD(model.parameters(), lr=0.1))

    Args:
        methods: at least two, built and not attached. They act in this order, except that those that read the optimizer's
            update act first after a step, and those that average the weights last.

    Raises:
        OptionError: they belong to different models, or two of them contradict each other.
        AttachError: one of them is attached already.
    """
    parts: dict[str, Method] = {}
    for name, method in (pair for one in methods for pair in _named(one)):
        if name in parts:
            raise OptionError(f"{name} is in the composition twice: leave one of them out.")
        if method.attached:
            raise AttachError(f"{name} is attached to an optimizer: call remove() on its handle, and attach the composition.")
        parts[name] = method
    if len({id(method.model) for method in methods}) > 1:
        raise OptionError("the methods act on different models: build them on the same one.")
    return combination(tuple((name, type(method)) for name, method in parts.items())).holding(parts)


def _named(method: Method) -> list[tuple[str, Method]]:
    if isinstance(method, Composition):
        return list(method.parts.items())
    kind = type(method)
    return [(kind.name or f"{kind.__module__}:{kind.__qualname__}", method)]


def parts_of(method: Method) -> tuple[Method, ...]:
    """The methods that a composition consists of; a method of any other kind itself."""
    return tuple(method.parts.values()) if isinstance(method, Composition) else (method,)


@cache
def combination(parts: tuple[tuple[str, type[Method]], ...]) -> type[Composition]:
    """The class of a composition.

    Args:
        parts: names and methods, in the order in which they are named.

    Raises:
        OptionError: there are fewer than two, or two of them contradict each other.
    """
    if len(parts) < 2:
        raise OptionError(f"a composition has at least two methods, found {', '.join(name for name, _ in parts) or 'none'}.")
    for one, other in combinations(parts, 2):
        _refuse_contradictions(one, other)
    turns = get_args(Turn)
    in_order = sorted(parts, key=lambda part: turns.index(part[1].turn))
    symbols = joint_symbols({name: kind.symbols for name, kind in parts})
    described = {
        "name": "+".join(name for name, _ in parts),
        "title": " + ".join(kind.title or name for name, kind in parts),
        "symbols": symbols,
        "named": parts,
        "kinds": dict(in_order),
        "__doc__": Composition.__doc__,
        "__module__": __name__,
    }
    return type("Composition", (Composition,), described)


def _empty(parts: tuple[tuple[str, type[Method]], ...]) -> Composition:
    """A composition without its attributes, which unpickling adds: its class has no place in a module."""
    kind = combination(parts)
    return kind.__new__(kind)


def _refuse_contradictions(one: tuple[str, type[Method]], other: tuple[str, type[Method]]) -> None:
    (first, kind), (second, another) = one, other
    if first == second:
        raise OptionError(f"{first} is in the composition twice: leave one of them out.")
    if issubclass(kind, another) or issubclass(another, kind):
        raise OptionError(f"{first} and {second} cannot be combined: one is a variant of the other; leave one of them out.")
    if shared := sorted(kind.owns & another.owns):
        raise OptionError(f"{first} and {second} cannot be combined: both decide {shared[0]}; leave one of them out.")


def _seed_of(seed: int, place: int, name: str) -> int:
    """The first part has the seed itself, so that it draws what it would draw alone; the others have seeds of their own."""
    return seed if place == 0 else int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def _sum(terms: list[Tensor | None]) -> Tensor | None:
    known = [term for term in terms if term is not None]
    return torch.stack(known).sum() if known else None
