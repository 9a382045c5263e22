"""What a sweep tries: the paper's grids, a method's own configurations, or any grid that is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from swr import methods as registry
from swr.bench.experiments.column import Column, Hyper
from swr.bench.experiments.published import GRIDS
from swr.errors import OptionError

Grid = Mapping[str, Sequence[float]]
"""the values to try of each hyper-parameter; with several, every combination"""


def points(column: Column, method: str, given: Grid | None = None) -> list[Hyper]:
    """The hyper-parameters to try: the given ones, the paper's, or what the method's class lists as ``tuning``.

    >>> from swr.bench.experiments.columns import find_column
    >>> points(find_column("mnist-mlp"), "l2", {"coefficient": [0.1, 0.2]})
    [{'coefficient': 0.1}, {'coefficient': 0.2}]

    Args:
        column: On networks with batch normalisation the paper sweeps two coefficients of SWR.
        method: Its name.
        given: A grid of one's own.
    """
    if given is None:
        return _known(column, method)
    for name, values in given.items():
        if not values:
            raise OptionError(f"the grid has no value of {name}: give at least one, such as {name}=1e-3,1e-2.")
    return _product(given)


def _known(column: Column, method: str) -> list[Hyper]:
    if len(parts := registry.parts(method)) > 1:
        swept = [part for part in parts if _tunable(part)] or parts[:1]
        each = [[{f"{part}.{key}": value for key, value in one.items()} for one in _known(column, part)] for part in swept]
        return [{key: value for one in chosen for key, value in one.items()} for chosen in product(*each)]
    if method in GRIDS:
        split = method in ("swr", "swr-reinit") and column.normalised
        return _product(dict.fromkeys(("features", "classifier") if split else ("coefficient",), GRIDS[method]))
    if not _tunable(method):
        known = ", ".join(name for name in registry.names() if _tunable(name))
        raise OptionError(
            f"{method} has no hyper-parameter to sweep by default; those that have are {known}: "
            "give others with --grid NAME=VALUE,VALUE."
        )
    return [dict(one) for one in registry.find(method).tuning]


def _tunable(method: str) -> bool:
    return method in GRIDS or len(registry.find(method).tuning) > 1


def _product(grid: Grid) -> list[Hyper]:
    return [dict(zip(grid, chosen, strict=True)) for chosen in product(*(dict.fromkeys(values) for values in grid.values()))]
