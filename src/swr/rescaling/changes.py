"""Notice that a model is no longer the one a plan was made for, cheaply enough to look before every step.

What is compared: the modules and parameters, by identity; whether a parameter is trained; its precision and device. That
finds replaced, added and removed layers, parametrisations, pruning, wrappers that replace parameters, freezing, unfreezing
and casts. A function that ``forward`` calls and that is no module cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_
from typing import Literal

from torch import nn

from swr.algebra.blocks import parameter_of

_traits = attrgetter("requires_grad", "dtype", "device")
_children = attrgetter("_modules")


@dataclass(frozen=True)
class Change:
    """One difference between a model and what it was.

    Attributes:
        name: of the module or parameter.
        kind: what happened to it.
    """

    name: str
    kind: Literal["replaced", "added", "removed", "frozen", "unfrozen"]

    @property
    def of_training(self) -> bool:
        """Whether only ``requires_grad`` changed: the layers are the same."""
        return self.kind in ("frozen", "unfrozen")

    def __str__(self) -> str:
        return f"{self.name or 'the model'} was {self.kind}"


class Snapshot:
    """The modules and parameters of a model at one time.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> snapshot = Snapshot(model)
    >>> snapshot.holds()
    True
    >>> model[2] = nn.Linear(3, 5)
    >>> snapshot.holds(), [str(change) for change in snapshot.changes(model)]
    (False, ['2 was replaced'])

    Args:
        model: the model to remember.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.parameters = dict(model.named_parameters())
        self.trained = {name: p.requires_grad for name, p in self.parameters.items()}
        modules = list(model.modules())
        # nn.Sequential replaces the dict of its children when one is removed; no module replaces that of its parameters.
        self._parents = [module for module in modules if module._modules]
        self._children = [module._modules for module in self._parents]
        held = [each for module in modules for each in (module._modules, module._parameters)]
        self._views = [each.values() for each in held]
        self._entries = [entry for each in held for entry in each.values()]
        self._traits = list(map(_traits, self.parameters.values()))

    def holds(self) -> bool:
        """Whether nothing has changed since."""
        return (
            sum(map(len, self._views)) == len(self._entries)
            and all(map(is_, chain.from_iterable(self._views), self._entries))
            and all(map(is_, map(_children, self._parents), self._children))
            and list(map(_traits, self.parameters.values())) == self._traits
        )

    def changes(self, model: nn.Module) -> tuple[Change, ...]:
        """What is different now; tensors that were replaced, cast or moved in the same layers do not count."""
        modules = dict(model.named_modules(remove_duplicate=False))
        trained = {name: p.requires_grad for name, p in model.named_parameters()}
        replaced = [name for name in modules if name in self.modules and modules[name] is not self.modules[name]]
        below = tuple(f"{name}." for name in replaced)
        kept = [name for name in trained if name in self.trained]
        found = [
            *(Change(name, "replaced") for name in replaced),
            *(Change(n, "added") for n in (*modules, *trained) if n not in self.modules and n not in self.trained),
            *(Change(n, "removed") for n in (*self.modules, *self.trained) if n not in modules and n not in trained),
            *(Change(name, "frozen") for name in kept if self.trained[name] and not trained[name]),
            *(Change(name, "unfrozen") for name in kept if trained[name] and not self.trained[name]),
        ]
        return tuple(change for change in found if not change.name.startswith(below))


def carried(before: Snapshot, model: nn.Module, numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers that belong to parameters or their blocks by name, under the names that these parameters have now.

    A parameter is the same if it is the same object, or has the same name in the same module (wrappers replace objects).

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    >>> before = Snapshot(model)
    >>> model = nn.Sequential(nn.Linear(4, 4), *model)
    >>> carried(before, model, {"0.weight": 1.0, "1.weight": 2.0})
    {'1.weight': 1.0, '2.weight': 2.0}

    Args:
        before: the model as it was.
        model: as it is now.
        numbers: by the names that the parameters had.
    """
    places = _places(before.modules)
    objects: dict[int, dict[str, float]] = {}
    in_place: dict[tuple[int, str], dict[str, float]] = {}
    for name, number in numbers.items():
        parameter = name if name in before.parameters else parameter_of(name)
        block = name.removeprefix(parameter)  # "" for all of it
        objects.setdefault(id(before.parameters[parameter]), {})[block] = number
        if parameter in places:
            in_place.setdefault(places[parameter], {})[block] = number
    now = _places(dict(model.named_modules(remove_duplicate=False)))
    found = {name: objects.get(id(p), in_place.get(now[name], {})) for name, p in model.named_parameters()}
    return {f"{name}{block}": number for name, parts in found.items() for block, number in parts.items()}


def _places(modules: Mapping[str, nn.Module]) -> dict[str, tuple[int, str]]:
    """Where each parameter is: its module and its name there."""
    return {
        f"{path}.{key}" if path else key: (id(module), key) for path, module in modules.items() for key in module._parameters
    }
