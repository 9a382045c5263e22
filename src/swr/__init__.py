"""Soft Weight Rescaling for any PyTorch model: keep networks plastic without losing what they have learned."""

from swr._version import __version__
from swr.algebra.chain import chain
from swr.algebra.plan import ScalePlan, analyze
from swr.algebra.rules import rule
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
from swr.rescaling import SoftWeightRescaling, rescale

__all__ = [
    "AttachError",
    "AttachWarning",
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
    "rescale",
    "rule",
]
