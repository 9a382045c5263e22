"""First stages that several runs of an invocation have in common: each is trained by one run, the others take it over.

The first run of a group trains the stage as a part of its own and leaves its end in a file beside the store; the others wait
for it. Waiting loses no time: until the file is there, a second process could only compute the same. If the first run fails,
is interrupted or cannot write the file, the next one takes its place, so that a run depends on no other.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from swr.bench.experiments import RunConfig


def shared(config: RunConfig) -> str | None:
    """The identity of a run's first stage, if it is at least half of its epochs; sharing shorter ones saves next to nothing."""
    return config.first_stage if 2 * config.epochs[0] >= sum(config.epochs) else None


def followers(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """The runs that will take over the first stage of one before them."""
    found: dict[str, list[RunConfig]] = defaultdict(list)
    for config in configs:
        if (stage := shared(config)) is not None:
            found[stage].append(config)
    return [config for group in found.values() for config in group[1:]]


def file_of(folder: Path, config: RunConfig) -> Path | None:
    """Where the end of a run's first stage is kept.

    Args:
        folder: Of the store's checkpoints.
        config: The run.
    """
    stage = shared(config)
    return None if stage is None else folder / f"first-stage-{stage}" / "checkpoint.pt"


class FirstStages:
    """Which runs have a first stage in common, and where it is kept until the last of them has ended.

    Args:
        folder: Of the store's checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] = {}
        """by run, of those that have not ended"""

    def open(self, configs: Iterable[RunConfig]) -> None:
        """The runs that are to be done; a first stage that only one of them has is shared if an earlier invocation left it."""
        files = {config.identity: file for config in configs if (file := file_of(self._folder, config)) is not None}
        sharing = Counter(files.values())
        self._files = {run: file for run, file in files.items() if sharing[file] > 1 or file.exists()}

    def file(self, config: RunConfig) -> Path | None:
        """The file of the run's first stage, if it shares it."""
        return self._files.get(config.identity)

    def awaited(self, config: RunConfig, active: Iterable[RunConfig], furthest: Mapping[str, int]) -> bool:
        """Whether another run is training the first stage of this one.

        Args:
            config: A run that has not started.
            active: The runs that have.
            furthest: The last epoch of each.
        """
        file = self.file(config)
        if file is None or file.exists():
            return False
        return any(self.file(other) == file and furthest[other.identity] < other.epochs[0] for other in active)

    def ended(self, config: RunConfig) -> None:
        """The run needs its first stage no more; after the last one it is removed."""
        file = self._files.pop(config.identity, None)
        if file is not None and file not in self._files.values():
            shutil.rmtree(file.parent, ignore_errors=True)

    def tidy(self, configs: Iterable[RunConfig]) -> None:
        """Remove what an invocation that was killed has left of these runs, unless one of them is still to be done."""
        for file in {file_of(self._folder, config) for config in configs} - {None, *self._files.values()}:
            if file is not None:
                shutil.rmtree(file.parent, ignore_errors=True)
