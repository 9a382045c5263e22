"""What SWR is compared with, one file each; every one attaches to a user's model and loop."""

from swr.methods.base import Batches, LossFunction, Method
from swr.methods.continual_backprop import ContinualBackprop
from swr.methods.crelu import CReLU, crelu
from swr.methods.dash import Dash
from swr.methods.dsd import DSD
from swr.methods.effective_rank import EffectiveRank
from swr.methods.fire import Fire
from swr.methods.full_reset import FullReset
from swr.methods.hare_tortoise import HareTortoise
from swr.methods.head_reset import HeadReset
from swr.methods.knowledge_evolution import KnowledgeEvolution
from swr.methods.l2 import L2
from swr.methods.l2_init import L2Init
from swr.methods.layerwise import Layerwise
from swr.methods.lipschitz import Lipschitz
from swr.methods.llf import LaterLayerForgetting
from swr.methods.lure import Lure
from swr.methods.max_norm import MaxNorm
from swr.methods.nap import NaP
from swr.methods.normalised import normalised
from swr.methods.parseval import Parseval
from swr.methods.redo import ReDo
from swr.methods.registry import REGISTRY, UnknownName, build, check_options, describe, find, names
from swr.methods.rescaled import SWR, SWRReinit
from swr.methods.rifle import Rifle
from swr.methods.scaling import NaiveScaling, ProportionalScaling
from swr.methods.self_normalized_resets import SelfNormalizedResets
from swr.methods.shrink_perturb import ShrinkPerturb
from swr.methods.shrink_perturb_fresh import ShrinkPerturbFresh
from swr.methods.spectral import Spectral
from swr.methods.spectral_norm import SpectralNorm
from swr.methods.spectral_normalisation import SpectralNormalisation
from swr.methods.upgd import UPGD
from swr.methods.vanilla import Vanilla
from swr.methods.wasserstein import Wasserstein
from swr.methods.weight_clipping import WeightClipping
from swr.methods.weight_decay import WeightDecay
from swr.methods.weight_normalisation import WeightNormalisation
from swr.methods.weight_rescaling import WeightRescaling

__all__ = [
    "DSD",
    "L2",
    "REGISTRY",
    "SWR",
    "UPGD",
    "Batches",
    "CReLU",
    "ContinualBackprop",
    "Dash",
    "EffectiveRank",
    "Fire",
    "FullReset",
    "HareTortoise",
    "HeadReset",
    "KnowledgeEvolution",
    "L2Init",
    "LaterLayerForgetting",
    "Layerwise",
    "Lipschitz",
    "LossFunction",
    "Lure",
    "MaxNorm",
    "Method",
    "NaP",
    "NaiveScaling",
    "Parseval",
    "ProportionalScaling",
    "ReDo",
    "Rifle",
    "SWRReinit",
    "SelfNormalizedResets",
    "ShrinkPerturb",
    "ShrinkPerturbFresh",
    "Spectral",
    "SpectralNorm",
    "SpectralNormalisation",
    "UnknownName",
    "Vanilla",
    "Wasserstein",
    "WeightClipping",
    "WeightDecay",
    "WeightNormalisation",
    "WeightRescaling",
    "build",
    "check_options",
    "crelu",
    "describe",
    "find",
    "names",
    "normalised",
]
