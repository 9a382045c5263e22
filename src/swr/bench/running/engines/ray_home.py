"""What workers ask of the driver's machine, as an actor there: whether to stop, and data that their own machine lacks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from swr.bench.data import Dataset, load
from swr.bench.running.engines.ray_data import Parcel, fingerprint, pack

PATIENCE = 60.0  # seconds until a question is answered with no, and asked again: those of dead workers end so
VARIABLES = ("SWR_DATA", "SWR_CACHE")


def environment() -> dict[str, str]:
    """What the driver's environment says about data; that of the cluster's processes may say something else."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


class Home:
    """One for each driver; ends with it.

    Args:
        environment: The driver's, where it matters.
        folder: The driver's current folder.
        data: A folder to search for datasets first.
    """

    def __init__(self, environment: dict[str, str], folder: Path, data: Path | None) -> None:
        os.environ.update(environment)
        os.chdir(folder)
        self._data = data
        self._stop = asyncio.Event()
        self._loading = asyncio.Lock()
        self._loaded: dict[str, tuple[Dataset, str]] = {}

    async def ready(self) -> None:
        """Answered as soon as the actor has started."""

    async def stop(self) -> None:
        """From now on runs stop at the end of their epoch."""
        self._stop.set()

    async def stopping(self) -> bool:
        """True as soon as runs are to stop; False if that did not happen for a while."""
        try:
            await asyncio.wait_for(self._stop.wait(), PATIENCE)
        except TimeoutError:
            return False
        return True

    async def fingerprint(self, name: str) -> str:
        """The hash of a dataset."""
        return (await self._load(name))[1]

    async def dataset(self, name: str) -> Parcel:
        """A dataset, through the object store of this machine."""
        return pack((await self._load(name))[0])

    async def _load(self, name: str) -> tuple[Dataset, str]:
        async with self._loading:
            if name not in self._loaded:
                dataset = await asyncio.to_thread(load, name, self._data)
                self._loaded[name] = dataset, await asyncio.to_thread(fingerprint, dataset)
            return self._loaded[name]
