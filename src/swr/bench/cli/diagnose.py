"""The command `diagnose`: has the user's trained network lost plasticity?"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

import swr
from swr.bench.cli import options
from swr.bench.cli.explain import build, example
from swr.bench.files import replacing
from swr.errors import InputsError, ModelError, OptionError, StateError
from swr.importing import load_attribute
from swr.probe import evaluated

LOSSES: dict[str, Callable[[Any, Any], Tensor]] = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss}
NESTED = ("model", "state_dict", "model_state_dict")
"""where a checkpoint may hold the state dict"""


def diagnose(command: options.Diagnose) -> None:
    """Print the diagnosis, and write the files that were asked for."""
    for path in (command.output, command.json):
        if path is not None and not path.parent.is_dir():
            raise OptionError(f"the folder {path.parent} of {path.name} does not exist: create it first.")
    model = trained(command.target, command.checkpoint)
    batches = _batches(command, model)
    console = Console(stderr=True)
    with Progress(
        TextColumn("training copies and fresh networks"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)
        found = swr.diagnose(
            model,
            batches,
            LOSSES[command.loss],
            fresh=lambda: build(command.target),
            steps=command.steps,
            seeds=command.seeds,
            lr=command.lr,
            targets="given" if command.data is None else command.targets,
            locate=not command.no_layers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    print(found)
    if command.data is None:
        print("\nThe batches were noise with random targets; give --data for an answer about your data.")
    for path, text in ((command.output, found.to_html), (command.json, found.to_json)):
        if path is not None:
            with replacing(path, mode="w") as [file]:
                file.write(text())
            print(f"\nwritten: {path}")


def trained(target: str, checkpoint: Path) -> nn.Module:
    """The model that the factory makes, with the parameters of a checkpoint.

    Raises:
        ModelError: the target names one model, not what makes models.
        StateError: the checkpoint cannot be read, or belongs to another architecture.
    """
    model = build(target)
    if model is build(target):
        raise ModelError(f"{target} gives the same model each time: name a function that makes a new, untrained one.")
    state = _read(checkpoint)
    if not isinstance(state, dict):
        raise StateError(f"{checkpoint} holds a {type(state).__name__}, not a state dict: save model.state_dict().")
    nested = next((state[key] for key in NESTED if isinstance(state.get(key), dict)), state)
    try:
        missing, unexpected = model.load_state_dict(nested, strict=False)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise StateError(f"{checkpoint} does not fit the model of {target}: {reason}") from error
    if missing or unexpected:
        lists = (("the model also has", missing), ("the checkpoint also has", unexpected))
        what = "; ".join(f"{text} {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" for text, names in lists if names)
        raise StateError(f"{checkpoint} does not fit the model of {target}: {what}.")
    return model


def _batches(command: options.Diagnose, model: nn.Module) -> Iterable[tuple[Any, Any]]:
    if (command.data is None) == (command.input is None):
        raise OptionError("give either --data, batches of a new task, or --input, the shape of one batch such as 128x3x32x32.")
    if command.data is None:
        return _noise(example(command.input or ""), model, command)
    if Path(command.data).suffix in (".pt", ".pth"):
        return _split(command.data, _read(Path(command.data)), command.batch_size)
    try:
        found = load_attribute(command.data)
        return found() if callable(found) else found  # type: ignore[no-any-return]
    except Exception as error:
        raise InputsError(
            f"--data {command.data} could not be read ({type(error).__name__}: {error}): "
            "name PACKAGE.MODULE:BATCHES, or a .pt file."
        ) from error


def _noise(first: Tensor, model: nn.Module, command: options.Diagnose) -> list[tuple[Any, Any]]:
    """Random inputs, with random classes or numbers as targets; the same at each call."""
    generator = torch.Generator().manual_seed(0)
    batches: list[tuple[Any, Any]] = []
    for _ in range(max(1, command.steps // 50)):
        inputs = torch.randn(first.shape, generator=generator) if first.is_floating_point() else first
        outputs = evaluated(model, inputs)
        if not isinstance(outputs, Tensor):
            raise InputsError(f"the model returns a {type(outputs).__name__}, so targets cannot be made up: give --data.")
        if command.loss == "mse":
            targets = torch.randn(outputs.shape, generator=generator)
        else:
            shape = (outputs.shape[0], *outputs.shape[2:])
            targets = torch.randint(outputs.shape[1], shape, generator=generator)
        batches.append((inputs, targets))
    return batches


def _split(name: str, found: Any, size: int) -> list[tuple[Tensor, Tensor]]:
    """Batches from two tensors, in a pair or under "inputs" and "targets"."""
    if isinstance(found, dict) and {"inputs", "targets"} <= set(found):
        found = found["inputs"], found["targets"]
    if not (
        isinstance(found, (tuple, list)) and len(found) == 2 and all(isinstance(each, Tensor) and each.ndim for each in found)
    ):
        raise InputsError(f'{name} must hold two tensors, as a pair (inputs, targets) or a dict of "inputs" and "targets".')
    inputs, targets = found
    if len(inputs) != len(targets) or not len(inputs):
        raise InputsError(
            f"{name} holds {len(inputs)} inputs and {len(targets)} targets: there must be as many, and at least one."
        )
    if size < 1:
        raise OptionError(f"--batch-size must be at least 1, found {size}.")
    return list(zip(inputs.split(size), targets.split(size), strict=True))


def _read(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise StateError(f"there is no file {path}.") from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StateError(f"{path} could not be read as tensors alone ({reason}): save a state dict with torch.save.") from error
