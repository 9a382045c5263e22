"""What a column of a table is: a dataset with the model that is trained on it, and all that was published about the pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swr.bench.experiments.models import MODELS

Hyper = dict[str, float]
"""hyper-parameters by the method's keyword"""


@dataclass(frozen=True)
class Published:
    """Final test accuracy over the paper's seeds."""

    mean: float
    std: float


@dataclass(frozen=True)
class Column:
    """A dataset and a model. A new column is one object, and one entry in the list in ``columns.py``."""

    name: str
    dataset: str
    model: str
    title: str
    """as the paper writes it"""
    seeds: int = 5
    """the paper's number of seeds"""
    batch_size: int = 256
    made_for: str | None = None
    """the one scenario that generates its data, if any"""
    hyper: Mapping[str, Mapping[str, Hyper]] = field(default_factory=dict, compare=False)
    """the paper's best hyper-parameters by experiment and method, chosen on the test set"""
    hyper_of: str = ""
    """the column of the paper that these are from, if it is another one"""
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict, compare=False)
    """the paper's results by experiment and method, where it has them as numbers"""

    @property
    def normalised(self) -> bool:
        """Whether the model has batch normalisation; SWR then has two coefficients."""
        return MODELS[self.model].normalised

    @property
    def clip(self) -> float | None:
        """The largest norm of a gradient that the model is trained with."""
        return MODELS[self.model].clip


def tuned(
    *, l2: float, l2_init: float, swr: float | tuple[float, float], shrink_perturb: float | None = None
) -> dict[str, Hyper]:
    """Hyper-parameters of the paper's methods.

    >>> tuned(l2=1e-2, l2_init=1e-2, swr=(1e-4, 1.0))["swr"]
    {'features': 0.0001, 'classifier': 1.0}

    Args:
        swr: λ, or λ_f and λ_c for networks with batch normalisation.
    """
    rescale = {"coefficient": swr} if isinstance(swr, float) else {"features": swr[0], "classifier": swr[1]}
    row = {"l2": {"coefficient": l2}, "l2-init": {"coefficient": l2_init}, "swr": rescale}
    return row if shrink_perturb is None else {"shrink-perturb": {"coefficient": shrink_perturb}, **row}


def results(**pairs: tuple[float, float]) -> dict[str, Published]:
    """Published means and standard deviations by method.

    >>> results(l2_init=(0.9793, 0.0016))
    {'l2-init': Published(mean=0.9793, std=0.0016)}
    """
    return {name.replace("_", "-"): Published(*pair) for name, pair in pairs.items()}
