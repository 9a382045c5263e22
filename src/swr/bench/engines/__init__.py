"""Where runs execute: an engine takes configurations and tells what becomes of them."""

from swr.bench.engines.events import Busy, Claimed, Done, Engine, EngineError, Event, Failed, Lost, Note, Reported, Stopped
from swr.bench.engines.local import LocalEngine

__all__ = [
    "Busy",
    "Claimed",
    "Done",
    "Engine",
    "EngineError",
    "Event",
    "Failed",
    "LocalEngine",
    "Lost",
    "Note",
    "Reported",
    "Stopped",
]
