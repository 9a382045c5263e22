"""The end of a run's first stage, kept so that other runs which begin with the same computation need not repeat it.

Methods that act only when a new task begins train alike until then. What the second stage depends on is the checkpoint at that
moment, without the method's own state: that is, by definition of these methods, still as it was built. A run that takes the
stage over reports its epochs as its own, bit for bit, with 0 seconds: they cost another run's time.

A file is believed only if it is complete, of the same first stage (:attr:`RunConfig.first_stage`), and made with the same
versions, device, number of threads and vector instructions, all of which the last bits may depend on.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import swr
from swr.bench.experiments import RunConfig
from swr.bench.training import checkpoint as checkpoints
from swr.bench.training.checkpoint import CheckpointError
from swr.bench.training.epoch import Epoch

if TYPE_CHECKING:
    from swr.bench.training.agents import ControlTraining
    from swr.bench.training.loop import Training

log = logging.getLogger("swr")


def take(path: Path, training: Training | ControlTraining, config: RunConfig, device: str) -> list[Epoch]:
    """Continue after the first stage in this file; its epochs, or none if there is no such file or it is not believed."""
    state = checkpoints.read(path)
    if state is None:
        return []
    for name, wanted in _made_with(config, device).items():
        found = state.get("made_with", {}).get(name)
        if found != wanted:
            path.unlink(missing_ok=True)
            log.warning("the first stage in %s is not used and trained again: its %s is %s, not %s", path, name, found, wanted)
            return []
    training.load_state_dict({**training.state_dict(), **state["training"]})  # the file has no state of a method
    return [replace(Epoch(**row), seconds=0.0) for row in state["epochs"]]


def offer(path: Path, training: Training | ControlTraining, config: RunConfig, device: str, epochs: list[Epoch]) -> None:
    """Write the file if the run is at the end of its first stage and no run was before; failing to do so is only said."""
    if len(epochs) != config.epochs[0] or path.exists():
        return
    state = {name: value for name, value in training.state_dict().items() if name != "method"}
    rows = [asdict(epoch) for epoch in epochs]
    try:
        checkpoints.write(path, {"made_with": _made_with(config, device), "training": state, "epochs": rows})
    except CheckpointError as error:
        log.warning("other runs will repeat this first stage: %s", error)


def _made_with(config: RunConfig, device: str) -> dict[str, Any]:
    """What must be the same for the result to be."""
    return {
        "first stage": config.first_stage,
        "swr": swr.__version__,
        "torch": str(torch.__version__),
        "device": str(torch.device(device)),
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
