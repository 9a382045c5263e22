"""A plan from registration order, for models that cannot be traced: Algorithm 1's own assumption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from swr.algebra.copies import aside, copied
from swr.algebra.flow import Flow
from swr.algebra.forms import ZERO, Form, Scale, Value, constant, settled
from swr.algebra.graph import refuse_unready, refuse_wrapped
from swr.algebra.plan import ScalePlan, plan_of
from swr.algebra.rules import lookup
from swr.algebra.verify import deviation
from swr.errors import ModelError, OptionError
from swr.probe import as_args

LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
_NORMS = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
)
_HOMOGENEOUS = (
    nn.Identity,
    nn.ReLU,
    nn.LeakyReLU,
    nn.RReLU,
    nn.Flatten,
    nn.Unflatten,
    nn.modules.dropout._DropoutNd,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.Upsample,
    nn.PixelShuffle,
)
_PROPORTIONAL = 1e-5  # what rounding leaves of a chain in float64, even where a layer computes in float32


def chain(model: nn.Module, example_inputs: Any = None, kwargs: Mapping[str, Any] | None = None) -> ScalePlan:
    """A plan that assumes the model's layers run one after the other, in the order they were registered.

    With c_l the scalers of the layers, weights get c_l and biases the product c_1 ⋯ c_l since the last normalisation
    layer, which forgets what came before it. A module of an unknown kind holds everything before it.

    An ``nn.Sequential`` of torch's own layers is such a chain. What any other forward does is not seen, so its plan is
    tried: a copy is rescaled and run in training and in evaluation mode, and a model that is not proportional is
    refused. The example inputs should take the paths through the model that training takes.

    >>> chain(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).free
    ('0.weight', '2.weight')

    Args:
        model: a model whose forward is a chain.
        example_inputs: a tensor, or a tuple of positional inputs; not needed for an ``nn.Sequential`` of torch's layers.
        kwargs: keyword inputs.

    Returns:
        The plan, for ``plan=`` of :class:`swr.SoftWeightRescaling`.
    """
    refuse_wrapped(model)
    refuse_unready(model)
    proven = _runs_in_order(model)
    tried = example_inputs is not None or kwargs is not None
    if not proven and not tried:
        raise OptionError(
            f"example inputs are needed to see whether {type(model).__name__} is a chain, since it is not an nn.Sequential of "
            "torch's own layers without hooks; call swr.chain(model, example_inputs)."
        )
    plan = _in_registration_order(model, repeated=proven)
    if tried:
        _try(plan, model, () if example_inputs is None else as_args(example_inputs), dict(kwargs or {}))
    return plan


def _runs_in_order(module: nn.Module) -> bool:
    """Whether it is a layer of torch's, or a sequence of such: then registration order is execution order."""
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        return False
    children = [child for child in module._modules.values() if child is not None]
    if type(module).forward is nn.Sequential.forward:
        return all(map(_runs_in_order, children))
    return not children and type(module).__module__.startswith("torch.nn.modules.")


def _in_registration_order(model: nn.Module, *, repeated: bool) -> ScalePlan:
    """The plan of a chain. ``repeated``: whether a module that is registered twice runs twice."""
    names = {id(p): name for name, p in model.named_parameters()}
    buffers = {id(b): name for name, b in model.named_buffers()}
    flow = Flow()
    x = Value(ZERO)
    for path, module in model.named_modules(remove_duplicate=not repeated):
        parameters = {key: _parameter(p, names, flow) for key, p in module.named_parameters(recurse=False)}
        if not parameters and (any(True for _ in module.children()) or isinstance(module, _HOMOGENEOUS)):
            continue
        flow.where = f"{type(module).__name__} at {path or 'the model'}"
        x = Value(_through(module, buffers, x, parameters, flow))
    return plan_of(model, flow, settled(x.form))


def _try(plan: ScalePlan, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse the plan unless it keeps the function of the model, in training and in evaluation mode.

    A zero hides a wrong scale and so do gains that are all one, so parameters of one value are moved away from it; and
    evaluation uses statistics of a batch that was seen in training.
    """
    network = copied(model)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for p in network.parameters():
            if not p.is_meta and p.numel() and bool((p == p.flatten()[0]).all()):
                p.add_((0.3 * torch.randn(p.shape, generator=generator)).to(p))
    _refuse_deviating(plan, network.train(), args, kwargs, "training")
    inputs, named = pytree.tree_map_only(Tensor, torch.clone, (args, kwargs))
    with aside(network):
        network(*inputs, **named)
    _refuse_deviating(plan, network.eval(), args, kwargs, "evaluation")


def _refuse_deviating(plan: ScalePlan, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str) -> None:
    found = deviation(plan, model, args, kwargs, seed=0)
    if not found <= _PROPORTIONAL:
        raise ModelError(
            f"{type(model).__name__} is not a chain: rescaled in registration order, its outputs in {mode} mode deviate from "
            f"proportional by {float(found):.2g} of their size; use swr.analyze(model, example_inputs)."
        )


def _through(module: nn.Module, buffers: dict[int, str], x: Value, parameters: dict[str, Value], flow: Flow) -> Scale:
    weight, bias = parameters.get("weight"), parameters.get("bias")
    if isinstance(module, LAYERS) and weight is not None:
        return _rule("aten.linear", flow, x, weight, bias)
    if isinstance(module, nn.Embedding) and weight is not None and module.max_norm is None:
        return _rule("aten.embedding", flow, weight)
    if isinstance(module, _NORMS):
        statistics = {
            key: Value(ZERO, buffer=buffers[id(b)])
            for key, b in module.named_buffers(recurse=False)
            if key in ("running_mean", "running_var")
        }
        mean, var = statistics.get("running_mean"), statistics.get("running_var")
        return _rule("aten.batch_norm", flow, x, weight, bias, mean, var, module.eps)
    if isinstance(module, nn.PReLU) and weight is not None:
        return _rule("aten.prelu", flow, x, weight)
    return flow.hold(x, *parameters.values())


def _rule(name: str, flow: Flow, *args: Value | float | None) -> Scale:
    """A rule of PyTorch's operators, which takes the arguments in the order in which the rule names them."""
    rule = lookup(name)
    assert rule is not None
    form: Scale = rule(flow, *args)
    return form


def _parameter(p: nn.Parameter, names: dict[int, str], flow: Flow) -> Value:
    name = names[id(p)]
    if not p.requires_grad:
        return constant(p.detach())
    flow.seen[name] = None
    return Value(Form.of(name), leaves=frozenset([name]), pure=True)
