"""What SWR is compared with, one file each; every one attaches to a user's model and loop."""

from swr.methods.base import Batches, LossFunction, Method
from swr.methods.full_reset import FullReset
from swr.methods.head_reset import HeadReset
from swr.methods.l2 import L2
from swr.methods.l2_init import L2Init
from swr.methods.registry import REGISTRY, UnknownName, build, find, names
from swr.methods.rescaled import SWR, SWRReinit
from swr.methods.shrink_perturb import ShrinkPerturb
from swr.methods.vanilla import Vanilla

__all__ = [
    "L2",
    "REGISTRY",
    "SWR",
    "Batches",
    "FullReset",
    "HeadReset",
    "L2Init",
    "LossFunction",
    "Method",
    "SWRReinit",
    "ShrinkPerturb",
    "UnknownName",
    "Vanilla",
    "build",
    "find",
    "names",
]
