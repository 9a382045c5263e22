"""Soft Weight Rescaling for any PyTorch model: keep networks plastic without losing what they have learned.

A name is imported when it is first used, so that `swr --help` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swr._version import __version__
from swr.errors import (
    AttachError,
    AttachWarning,
    InputsError,
    ModelError,
    ModelWarning,
    OptionError,
    PlanError,
    StateError,
    SWRError,
)

if TYPE_CHECKING:
    from swr.algebra.chain import chain
    from swr.algebra.plan import ScalePlan, analyze
    from swr.algebra.rules import rule
    from swr.diagnostics.diagnosis import Diagnosis, diagnose
    from swr.rescaling import SoftWeightRescaling, rescale

__all__ = [
    "AttachError",
    "AttachWarning",
    "Diagnosis",
    "InputsError",
    "ModelError",
    "ModelWarning",
    "OptionError",
    "PlanError",
    "SWRError",
    "ScalePlan",
    "SoftWeightRescaling",
    "StateError",
    "__version__",
    "analyze",
    "chain",
    "diagnose",
    "rescale",
    "rule",
]

_HOMES = {
    "Diagnosis": "swr.diagnostics.diagnosis",
    "ScalePlan": "swr.algebra.plan",
    "SoftWeightRescaling": "swr.rescaling",
    "analyze": "swr.algebra.plan",
    "chain": "swr.algebra.chain",
    "diagnose": "swr.diagnostics.diagnosis",
    "rescale": "swr.rescaling",
    "rule": "swr.algebra.rules",
}
"""the modules of the names that need torch"""

_PACKAGES = ("algebra", "diagnostics", "methods", "rescaling", "units")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return import_module(f"swr.{name}")
    raise AttributeError(f"module 'swr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
