"""nn.Module + example inputs -> a functional graph whose parameters have names.

``torch.export`` (non-strict) with an empty decomposition table leaves linear layers, convolutions, normalisation
and attention whole and removes every in-place write. Tensors that a model knows by several names appear once per use in
the export; they get one name here, by identity.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.nn.modules import transformer
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from swr.algebra.aliases import merge_aliases
from swr.algebra.dtypes import refuse_mixed_dtypes
from swr.errors import ModelError
from swr.sharding import as_sharded


@dataclass(frozen=True)
class Traced:
    """A functional graph with the meaning of its placeholders and outputs.

    parameters, buffers: placeholder -> name in the model (a tied parameter has one name).
    constants: placeholder -> tensor, for everything else that the model brings along.
    outputs: the nodes that a caller of the model sees.
    mutated: buffer name -> the node that holds its next value.
    activations: path -> class of the model's own modules that have neither parameters nor children.
    """

    graph: fx.Graph
    parameters: Mapping[str, str]
    buffers: Mapping[str, str]
    constants: Mapping[str, torch.Tensor]
    outputs: tuple[fx.Node, ...]
    mutated: Mapping[str, fx.Node]
    activations: Mapping[str, str] = field(default_factory=dict)


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Traced:
    """Trace ``model(*args, **kwargs)`` without running it; the model, its buffers and the random state stay as they are.

    A model on the meta device is traced there, wherever the inputs are.
    """
    refuse_wrapped(model)
    refuse_unready(model)
    named = dict(kwargs or {})
    if all(p.is_meta for p in model.parameters()):
        args, named = tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, named))
    program = _export(model, args, named)
    refuse_mixed_dtypes(program.graph, module_path)
    canonical = {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}
    by_any_name = dict(model.named_parameters(remove_duplicate=False))
    buffer_names = {name: canonical[id(b)] for name, b in model.named_buffers(remove_duplicate=False)}
    parameters: dict[str, str] = {}
    buffers: dict[str, str] = {}
    constants: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        placeholder, target = getattr(spec.arg, "name", ""), spec.target
        if spec.kind is InputKind.PARAMETER and target in by_any_name:
            parameters[placeholder] = canonical[id(by_any_name[target])]
        elif spec.kind is InputKind.BUFFER and target is not None:
            buffers[placeholder] = buffer_names.get(target, target)
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
            mutated[buffer_names.get(out.target, out.target)] = node
        elif out.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            outputs.append(node)
    return Traced(program.graph, parameters, buffers, constants, tuple(outputs), mutated, _activations(model))


def _activations(model: nn.Module) -> dict[str, str]:
    """Modules that only compute and are not torch's own, whose operators say what they are."""
    return {
        path: type(module).__name__
        for path, module in model.named_modules()
        if path and not module._modules and not module._parameters and not type(module).__module__.startswith("torch.")
    }


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
        "ScriptModule": "torch.jit",
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
    for name, parameter in model.named_parameters():
        if as_sharded(parameter) is not None:
            raise ModelError(
                f"{name} is already distributed (a DTensor); analyse the plain model first "
                "(plan = swr.analyze(model, example_inputs)), parallelise it afterwards, and pass plan=plan."
            )


def refuse_unready(model: nn.Module) -> None:
    """A model without parameters, or with some that have no shape yet, has nothing to scale."""
    parameters = list(model.named_parameters())
    if not parameters:
        raise ModelError(f"{type(model).__name__} has no parameters, so there is nothing to rescale.")
    for name, parameter in parameters:
        if is_lazy(parameter):
            raise ModelError(f"{name} is not initialised yet; run one batch through the model, as its lazy layers need.")


def _export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    try:
        with (
            _quiet(),
            torch.random.fork_rng(devices=[]),
            _no_fast_attention(),
            _fixed_momentum(model),
            no_cache(model),
            _masks_as_given(),
        ):
            program = merge_aliases(torch.export.export(model, args, kwargs, strict=False), model)
            functional: torch.export.ExportedProgram = program.run_decompositions({})
            return functional
    except Exception as error:
        from swr.algebra.untraceable import refusal  # which tries a chain, which needs this file

        raise refusal(model, args, kwargs, error) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Export logs its failures, prints the graph it had so far, and warns of its own deprecations; ours is one sentence.

    What the model's own forward prints is passed on.
    """
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    printed, graph = io.StringIO(), ""
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(printed):
            yield
    except Exception as error:
        graph = f"{getattr(error, 'partial_fx_graph', '')}\n"
        raise
    finally:
        logger.setLevel(level)
        sys.stderr.write(printed.getvalue().replace(graph, "") if graph.strip() else printed.getvalue())


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
def no_cache(model: nn.Module) -> Iterator[None]:
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


@contextlib.contextmanager
def _masks_as_given() -> Iterator[None]:
    """nn.Transformer looks whether a mask is causal by its values, to choose a faster kernel; its function does not
    depend on the answer."""
    before = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = before
