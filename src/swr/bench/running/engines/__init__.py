"""Where runs are executed: an engine takes jobs and reports what happens to them."""

from swr.bench.running.engines.events import (
    Busy,
    Claimed,
    Done,
    Engine,
    EngineError,
    Event,
    Failed,
    Job,
    Lost,
    Note,
    Placed,
    Reported,
    Stopped,
)
from swr.bench.running.engines.local import LocalEngine

__all__ = [
    "Busy",
    "Claimed",
    "Done",
    "Engine",
    "EngineError",
    "Event",
    "Failed",
    "Job",
    "LocalEngine",
    "Lost",
    "Note",
    "Placed",
    "Reported",
    "Stopped",
]
