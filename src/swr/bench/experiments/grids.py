"""What a sweep tries: the paper's grids, ours for the other methods, or any that is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from swr import methods as registry
from swr.bench.experiments.column import Column, Hyper
from swr.bench.experiments.published import GRIDS
from swr.errors import OptionError

Grid = Mapping[str, Sequence[float]]
"""the values to try of each hyper-parameter; with several, every combination"""

DECADES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

OURS: dict[str, Grid] = {
    "weight-decay": {"coefficient": (1.0, 1e-1, 1e-2, 1e-3, 1e-4)},
    "wasserstein": {"coefficient": DECADES},
    "spectral-norm": {"coefficient": DECADES},
    "spectral": {"coefficient": DECADES},
    "effective-rank": {"coefficient": DECADES},
    "parseval": {"coefficient": DECADES},
    "weight-clipping": {"bound": (0.5, 1.0, 2.0, 4.0)},
    "max-norm": {"bound": (1.0, 2.0, 3.0, 4.0)},
    "lipschitz": {"bound": (1.0, 2.0, 4.0, 8.0)},
    "redo": {"threshold": (0.0, 0.01, 0.025, 0.05, 0.1)},
    "continual-backprop": {"rate": (1e-6, 1e-5, 1e-4, 1e-3)},
    "self-normalized-resets": {"rejection": (0.01, 0.02, 0.04, 0.08)},
    "shrink-perturb-fresh": {"retain": (0.2, 0.4, 0.6, 0.8)},
    "hare-tortoise": {"momentum": (0.9, 0.99, 0.999, 0.9999)},
    "dash": {"floor": (0.1, 0.2, 0.3, 0.5)},
    "swr-budget": {"growth": (1.0, 1.2, 1.5, 2.0, 3.0)},
    "hyperball": {"scale": (1.0, 3.0, 10.0, 30.0)},
    "cautious-decay": {"coefficient": (1.0, 1e-1, 1e-2, 1e-3, 1e-4)},
}
"""around the defaults of the methods that the paper does not have; a new one is one more entry"""


def points(column: Column, method: str, given: Grid | None = None) -> list[Hyper]:
    """The hyper-parameters to try: the given ones, the paper's, or ours.

    >>> from swr.bench.experiments.columns import find_column
    >>> points(find_column("mnist-mlp"), "l2", {"coefficient": [0.1, 0.2]})
    [{'coefficient': 0.1}, {'coefficient': 0.2}]

    Args:
        column: On networks with batch normalisation the paper sweeps two coefficients of SWR.
        method: Its name.
        given: A grid of one's own.
    """
    grid = given if given is not None else _known(column, method)
    for name, values in grid.items():
        if not values:
            raise OptionError(f"the grid has no value of {name}: give at least one, such as {name}=1e-3,1e-2.")
    return [dict(zip(grid, chosen, strict=True)) for chosen in product(*(dict.fromkeys(values) for values in grid.values()))]


def _known(column: Column, method: str) -> Grid:
    if len(parts := registry.parts(method)) > 1:
        swept = [part for part in parts if part in GRIDS or part in OURS] or parts[:1]
        return {f"{part}.{key}": values for part in swept for key, values in _known(column, part).items()}
    if method in GRIDS:
        split = method in ("swr", "swr-reinit") and column.normalised
        return dict.fromkeys(("features", "classifier") if split else ("coefficient",), GRIDS[method])
    if method not in OURS:
        known = ", ".join((*GRIDS, *OURS))
        raise OptionError(
            f"{method} has no hyper-parameter to sweep by default; those that have are {known}: "
            "give others with --grid NAME=VALUE,VALUE."
        )
    return OURS[method]
