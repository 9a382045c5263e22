"""What SWR is compared with, one file each; every one attaches to a user's model and loop."""

from swr.methods.all_methods import *  # noqa: F403
from swr.methods.base import Batches as Batches
from swr.methods.base import LossFunction as LossFunction
from swr.methods.base import Method as Method
from swr.methods.composition import Composition as Composition
from swr.methods.composition import compose as compose
from swr.methods.composition import parts_of as parts_of
from swr.methods.registry import ALSO as ALSO
from swr.methods.registry import REGISTRY as REGISTRY
from swr.methods.registry import UnknownName as UnknownName
from swr.methods.registry import addressed as addressed
from swr.methods.registry import build as build
from swr.methods.registry import check_options as check_options
from swr.methods.registry import describe as describe
from swr.methods.registry import find as find
from swr.methods.registry import names as names
from swr.methods.registry import parts as parts
from swr.methods.transforms.crelu import CReLU as CReLU
from swr.methods.transforms.crelu import crelu as crelu
from swr.methods.transforms.normalised import normalised as normalised
