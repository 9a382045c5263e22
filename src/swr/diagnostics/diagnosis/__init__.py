"""Has a trained network lost plasticity, in which layer, and what helps?"""

from swr.diagnostics.diagnosis.examine import diagnose
from swr.diagnostics.diagnosis.record import Diagnosis

__all__ = ["Diagnosis", "diagnose"]
