"""The options of `run` and `sweep` that choose where runs are executed."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swr.bench.cli import arguments, options
from swr.bench.running import slurm
from swr.bench.running.network_disk import network_file_system
from swr.errors import OptionError

if TYPE_CHECKING:
    from swr.bench.running.engines.ray_engine import RayEngine


def device(on: options.Cluster, name: str) -> str:
    """The device of the runs; options that the engine does not have are refused.

    A GPU of a cluster need not be one of this machine: with ``--gpus-per-run`` it is not looked for here.
    """
    if on.engine == "local" and on.emit is None:
        for field in dataclasses.fields(on):
            if field.name not in ("engine", "emit") and getattr(on, field.name) != field.default:
                flag = "--" + field.name.replace("_", "-")
                raise OptionError(f"{flag} is for runs on Ray: add --engine ray, or leave it out.")
        return arguments.device(name)
    if name.startswith("cuda:"):
        raise OptionError(f"--device {name} names one GPU, but Ray chooses them: use --device cuda.")
    if on.gpus_per_run:
        if name == "cpu":
            raise OptionError("--gpus-per-run asks for GPUs that --device cpu does not use: leave one of them out.")
        return "cuda"
    found = arguments.device(name)
    if found == "cuda" and on.gpus_per_run == 0:
        raise OptionError("--gpus-per-run 0 leaves no GPU for --device cuda: leave it out, or use --device cpu.")
    return found


def engine(on: options.Cluster, workers: int | None, data: Path | None, device: str) -> RayEngine | None:
    """The engine, connected; None for local processes."""
    if on.engine == "local":
        return None
    if find_spec("ray") is None:
        raise OptionError("--engine ray needs Ray, which is not installed: pip install 'soft-weight-rescaling[ray]'.")
    if not on.ray_logs:
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")  # read when Ray is imported: none of its lines are shown
    from swr.bench.running.engines.ray_engine import RayEngine

    return RayEngine(
        on.address,
        workers=workers,
        cpus=on.cpus_per_run,
        gpus=on.gpus_per_run if on.gpus_per_run is not None else float(device != "cpu"),
        checkpoints=on.checkpoints,
        data=data,
        runtime_env=None if on.runtime_env is None else _read(on.runtime_env),
        logs=on.ray_logs,
    )


def emit(title: str, command: str) -> int:
    """Print a batch script that executes this command line on a cluster."""
    print(slurm.script(title, shlex.split(command)), end="")
    return 0


def warn_of_network(store: Path) -> None:
    """Say if the store is on a network file system."""
    if kind := network_file_system(store.absolute().parent):
        print(
            f"swr: {store} is on a network file system ({kind}), where a second machine that opens it can damage it: "
            "better name a file on a local disk with --store, and merge with `swr import`",
            file=sys.stderr,
        )


def _read(path: Path) -> dict[str, Any]:
    """A runtime environment."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise OptionError(f"--runtime-env {path} cannot be read ({error}): name a YAML or JSON file.") from error
    if not isinstance(found, dict):
        raise OptionError(f"--runtime-env {path} must hold a mapping such as {{'pip': [...]}}, found {type(found).__name__}.")
    return found
