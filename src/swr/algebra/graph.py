"""nn.Module + example inputs -> a functional graph whose parameters have names.

``torch.export`` (non-strict) with an empty decomposition table leaves linear layers, convolutions, normalisation
and attention whole and removes every in-place write. Tied parameters appear once per use in the export; they are
merged here by identity.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_map_only

from swr.algebra.aliases import merge_aliases
from swr.errors import InputsError, ModelError


@dataclass(frozen=True)
class Traced:
    """A functional graph with the meaning of its placeholders and outputs.

    parameters, buffers: placeholder -> name in the model (a tied parameter has one name).
    constants: placeholder -> tensor, for everything else that the model brings along.
    outputs: the nodes that a caller of the model sees.
    mutated: buffer name -> the node that holds its next value.
    """

    graph: fx.Graph
    parameters: Mapping[str, str]
    buffers: Mapping[str, str]
    constants: Mapping[str, torch.Tensor]
    outputs: tuple[fx.Node, ...]
    mutated: Mapping[str, fx.Node]


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Traced:
    """Trace ``model(*args, **kwargs)`` without running it; the model, its buffers and the random state stay as they are.

    A model on the meta device is traced there, wherever the inputs are.
    """
    refuse_wrapped(model)
    if not any(True for _ in model.parameters()):
        raise ModelError(f"{type(model).__name__} has no parameters, so there is nothing to rescale.")
    named = dict(kwargs or {})
    if all(p.is_meta for p in model.parameters()):
        args, named = tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, named))
    program = _export(model, args, named)
    canonical = {id(p): name for name, p in model.named_parameters()}
    by_any_name = dict(model.named_parameters(remove_duplicate=False))
    parameters: dict[str, str] = {}
    buffers: dict[str, str] = {}
    constants: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        placeholder, target = getattr(spec.arg, "name", ""), spec.target
        if spec.kind is InputKind.PARAMETER and target in by_any_name:
            parameters[placeholder] = canonical[id(by_any_name[target])]
        elif spec.kind is InputKind.BUFFER and target is not None:
            buffers[placeholder] = target
        elif spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.PARAMETER) and target is not None:
            constants[placeholder] = program.constants.get(target, program.state_dict.get(target))
    nodes = {node.name: node for node in program.graph.nodes}
    outputs: list[fx.Node] = []
    mutated: dict[str, fx.Node] = {}
    for out in program.graph_signature.output_specs:
        node = nodes.get(getattr(out.arg, "name", ""))
        if node is None:
            continue
        if out.kind is OutputKind.BUFFER_MUTATION and out.target is not None:
            mutated[out.target] = node
        elif out.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            outputs.append(node)
    return Traced(program.graph, parameters, buffers, constants, tuple(outputs), mutated)


def module_path(node: fx.Node) -> str:
    """Where in the model a node comes from, as a dotted path ('' for the model itself)."""
    stack = node.meta.get("nn_module_stack") or {}
    path = ""
    for entry in stack.values():
        path = entry[0] if isinstance(entry, tuple) else str(entry)
    return path.removeprefix("L['self']").removeprefix(".")


def refuse_wrapped(model: nn.Module) -> None:
    """Wrapped models do not export: say which wrapper was found and that the analysis comes first."""
    wrappers = {
        "DistributedDataParallel": "DistributedDataParallel",
        "DataParallel": "DataParallel",
        "FullyShardedDataParallel": "FullyShardedDataParallel",
        "FSDPModule": "fully_shard",
        "OptimizedModule": "torch.compile",
    }
    if not isinstance(model, nn.Module):
        raise ModelError(f"expected a torch.nn.Module, found {type(model).__name__}.")
    for name, module in model.named_modules():
        for kind in type(module).__mro__:
            if kind.__name__ in wrappers and kind.__module__.startswith("torch."):
                raise ModelError(
                    f"{name or 'the model'} is already wrapped by {wrappers[kind.__name__]}; analyse the plain model first "
                    "(plan = swr.analyze(model, example_inputs)), wrap it afterwards, and pass plan=plan."
                )


def _export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    try:
        with _quiet(), torch.random.fork_rng(devices=[]), _no_fast_attention(), _fixed_momentum(model), _no_cache(model):
            program = merge_aliases(torch.export.export(model, args, kwargs, strict=False), model)
            functional: torch.export.ExportedProgram = program.run_decompositions({})
            return functional
    except Exception as error:
        cause = _first_line(error)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                copy.deepcopy(model)(*args, **kwargs)
        except Exception as rejected:
            raise InputsError(
                f"{type(model).__name__} rejects the example inputs ({_summary(args, kwargs)}): {_first_line(rejected)}; "
                "pass one batch as its forward takes it."
            ) from rejected
        raise ModelError(
            f"{type(model).__name__} cannot be traced by torch.export ({type(error).__name__}: {cause}); "
            "data-dependent control flow is the usual cause. If its layers run in registration order, "
            "use plan=swr.chain(model) instead."
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Export logs its own failures at length, and warns of its own deprecations; ours is one sentence."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _no_fast_attention() -> Iterator[None]:
    """The fused inference kernel of nn.MultiheadAttention hides its weights; trace the open form."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def _fixed_momentum(model: nn.Module) -> Iterator[None]:
    """BatchNorm's cumulative average divides by a counter read as a number; no scale depends on the momentum."""
    cumulative = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._NormBase) and m.momentum is None]
    for module in cumulative:
        module.momentum = 0.1
    try:
        yield
    finally:
        for module in cumulative:
            module.momentum = None


@contextlib.contextmanager
def _no_cache(model: nn.Module) -> Iterator[None]:
    """Language models of transformers return their keys and values for the next token unless told not to; no training
    step asks for them, and export does not know their container."""
    held: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    configs = {id(config): config for config in held if getattr(config, "use_cache", None) is True}
    for config in configs.values():
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def _summary(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return type(value).__name__

    return ", ".join([one(a) for a in args] + [f"{k}={one(v)}" for k, v in kwargs.items()]) or "none"
