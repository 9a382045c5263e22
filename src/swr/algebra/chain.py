"""A plan from registration order, for models that cannot be traced: Algorithm 1's own assumption."""

from __future__ import annotations

from torch import nn

from swr.algebra.flow import Flow
from swr.algebra.forms import ZERO, Form, Scale, Value, constant, settled
from swr.algebra.graph import refuse_wrapped
from swr.algebra.plan import ScalePlan, plan_of
from swr.algebra.rules import lookup
from swr.errors import ModelError

_LAYERS = (
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


def chain(model: nn.Module) -> ScalePlan:
    """A plan that assumes the model's layers run one after the other, in the order they were registered.

    With c_l the scalers of the layers, weights get c_l and biases the product c_1 ⋯ c_l since the last normalisation
    layer, which forgets what came before it. What happens in ``forward`` is not seen: functional activations are
    taken to be homogeneous and branches not to exist. A module of an unknown kind holds everything before it.

    >>> chain(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).free
    ('0.weight', '2.weight')

    model: any model whose forward is a chain.
    """
    refuse_wrapped(model)
    names = {id(p): name for name, p in model.named_parameters()}
    if not names:
        raise ModelError(f"{type(model).__name__} has no parameters, so there is nothing to rescale.")
    flow = Flow()
    x = Value(ZERO)
    for path, module in model.named_modules():
        parameters = {key: _parameter(p, names, flow) for key, p in module.named_parameters(recurse=False)}
        if not parameters and (any(True for _ in module.children()) or isinstance(module, _HOMOGENEOUS)):
            continue
        flow.where = f"{type(module).__name__} at {path or 'the model'}"
        x = Value(_through(module, path, x, parameters, flow))
    return plan_of(model, flow, settled(x.form))


def _through(module: nn.Module, path: str, x: Value, parameters: dict[str, Value], flow: Flow) -> Scale:
    weight, bias = parameters.get("weight"), parameters.get("bias")
    if isinstance(module, _LAYERS) and weight is not None:
        return _rule("aten.linear", flow, x, weight, bias)
    if isinstance(module, nn.Embedding) and weight is not None:
        return _rule("aten.embedding", flow, weight)
    if isinstance(module, _NORMS):
        statistics = {
            key: Value(ZERO, buffer=f"{path}.{key}" if path else key)
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
