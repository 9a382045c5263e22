"""Executing runs: jobs, progress, estimates of the time, and the engines that execute them."""

from swr.bench.running.estimate import Estimator
from swr.bench.running.jobs import Outcome, cores, execute, last_line

__all__ = ["Estimator", "Outcome", "cores", "execute", "last_line"]
