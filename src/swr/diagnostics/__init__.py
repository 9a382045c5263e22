"""The paper's theorems as measurements, and other measures of plasticity; :class:`Monitor` records them during training."""

from swr.diagnostics.balancing import balancedness, entrywise_norm, minimal_norm, rebalance
from swr.diagnostics.bounds import norm_limit, norm_limits, slack, squared_changes
from swr.diagnostics.curvature import curvature
from swr.diagnostics.diagnosis import Diagnosis, diagnose
from swr.diagnostics.dormancy import Dormant, dormant_units, unit_scores
from swr.diagnostics.duplicates import duplicate_units, duplicates
from swr.diagnostics.gradients import gradient_norm, gradient_norms, saved_weights, update_ratios
from swr.diagnostics.layer_norms import anchors_of, balance, layer_norms, layer_weights, norm_ratios
from swr.diagnostics.lipschitz import LipschitzBound, lipschitz_bound
from swr.diagnostics.monitor import Monitor, read_csv
from swr.diagnostics.proportional import Proportionality, proportionality
from swr.diagnostics.ranks import Ranks, effective_rank, feature_ranks, features, srank, stable_rank
from swr.power_iteration import spectral_norm
from swr.probe import undisturbed

__all__ = [
    "Diagnosis",
    "Dormant",
    "LipschitzBound",
    "Monitor",
    "Proportionality",
    "Ranks",
    "anchors_of",
    "balance",
    "balancedness",
    "curvature",
    "diagnose",
    "dormant_units",
    "duplicate_units",
    "duplicates",
    "effective_rank",
    "entrywise_norm",
    "feature_ranks",
    "features",
    "gradient_norm",
    "gradient_norms",
    "layer_norms",
    "layer_weights",
    "lipschitz_bound",
    "minimal_norm",
    "norm_limit",
    "norm_limits",
    "norm_ratios",
    "proportionality",
    "read_csv",
    "rebalance",
    "saved_weights",
    "slack",
    "spectral_norm",
    "squared_changes",
    "srank",
    "stable_rank",
    "undisturbed",
    "unit_scores",
    "update_ratios",
]
