"""The methods: the one list of them. A new method is a file, an import here, and its place in the tuple."""

from swr.methods.base import Method
from swr.methods.cautious_decay import CautiousDecay as CautiousDecay
from swr.methods.continual_backprop import ContinualBackprop as ContinualBackprop
from swr.methods.cpr import CPR as CPR
from swr.methods.dash import Dash as Dash
from swr.methods.dsd import DSD as DSD
from swr.methods.effective_rank import EffectiveRank as EffectiveRank
from swr.methods.ema import EMA as EMA
from swr.methods.fire import Fire as Fire
from swr.methods.full_reset import FullReset as FullReset
from swr.methods.hare_tortoise import HareTortoise as HareTortoise
from swr.methods.head_reset import HeadReset as HeadReset
from swr.methods.hyperball import Hyperball as Hyperball
from swr.methods.knowledge_evolution import KnowledgeEvolution as KnowledgeEvolution
from swr.methods.l2 import L2 as L2
from swr.methods.l2_init import L2Init as L2Init
from swr.methods.layerwise import Layerwise as Layerwise
from swr.methods.lipschitz_projection import Lipschitz as Lipschitz
from swr.methods.llf import LaterLayerForgetting as LaterLayerForgetting
from swr.methods.lure import Lure as Lure
from swr.methods.max_norm import MaxNorm as MaxNorm
from swr.methods.nap import NaP as NaP
from swr.methods.parseval import Parseval as Parseval
from swr.methods.ratio_scaling import NaiveScaling as NaiveScaling
from swr.methods.ratio_scaling import ProportionalScaling as ProportionalScaling
from swr.methods.redo import ReDo as ReDo
from swr.methods.rifle import Rifle as Rifle
from swr.methods.self_normalized_resets import SelfNormalizedResets as SelfNormalizedResets
from swr.methods.shrink_perturb import ShrinkPerturb as ShrinkPerturb
from swr.methods.shrink_perturb import ShrinkPerturbFresh as ShrinkPerturbFresh
from swr.methods.spectral_normalisation import SpectralNormalisation as SpectralNormalisation
from swr.methods.spectral_penalty import SpectralNorm as SpectralNorm
from swr.methods.spectral_regularisation import Spectral as Spectral
from swr.methods.swr import SWR as SWR
from swr.methods.swr import SWRReinit as SWRReinit
from swr.methods.swr_budget import SWRBudget as SWRBudget
from swr.methods.upgd import UPGD as UPGD
from swr.methods.vanilla import Vanilla as Vanilla
from swr.methods.wasserstein import Wasserstein as Wasserstein
from swr.methods.weight_clipping import WeightClipping as WeightClipping
from swr.methods.weight_decay import WeightDecay as WeightDecay
from swr.methods.weight_normalisation import WeightNormalisation as WeightNormalisation
from swr.methods.weight_rescaling import WeightRescaling as WeightRescaling

METHODS: tuple[type[Method], ...] = (
    Vanilla,
    L2,
    L2Init,
    ShrinkPerturb,
    HeadReset,
    SWR,
    SWRReinit,
    SWRBudget,
    FullReset,
    ReDo,
    ContinualBackprop,
    SelfNormalizedResets,
    NaiveScaling,
    ProportionalScaling,
    WeightDecay,
    CautiousDecay,
    CPR,
    Wasserstein,
    SpectralNorm,
    Spectral,
    EffectiveRank,
    Parseval,
    WeightRescaling,
    WeightClipping,
    NaP,
    Hyperball,
    Lipschitz,
    MaxNorm,
    SpectralNormalisation,
    WeightNormalisation,
    Layerwise,
    Dash,
    Rifle,
    LaterLayerForgetting,
    KnowledgeEvolution,
    Lure,
    DSD,
    HareTortoise,
    EMA,
    ShrinkPerturbFresh,
    Fire,
    UPGD,
)
"""in the order of tables and lists"""
