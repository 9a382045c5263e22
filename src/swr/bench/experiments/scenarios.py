"""The scenarios by name. A new one is a class and one more entry here, or in the list of streams."""

from __future__ import annotations

from swr.bench.experiments.chunks import CONTINUAL_FULL, CONTINUAL_LIMITED, CONTINUED, SINGLE, WARM_START
from swr.bench.experiments.scenario import Scenario
from swr.bench.experiments.streams import STREAMS
from swr.methods import UnknownName

CHUNKED: dict[str, Scenario] = {one.name: one for one in (SINGLE, CONTINUED, WARM_START, CONTINUAL_FULL, CONTINUAL_LIMITED)}


def find_scenario(name: str) -> Scenario:
    """The scenario of that name, or the stream.

    >>> find_scenario("continual-limited").data
    'replaced'
    """
    found = CHUNKED.get(name) or STREAMS.get(name)
    if found is None:
        raise UnknownName("scenario", name, [*CHUNKED, *STREAMS])
    return found
