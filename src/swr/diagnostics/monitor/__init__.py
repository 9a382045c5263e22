"""Measures taken while a network trains: when, which, and where they go."""

from swr.diagnostics.monitor.recording import Monitor
from swr.diagnostics.monitor.sinks import read_csv

__all__ = ["Monitor", "read_csv"]
