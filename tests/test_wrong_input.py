"""Wrong input ends in one clear sentence and changes nothing."""

import copy

import pytest
import torch
from torch import nn

import swr
from nets import inputs_of, make, mlp


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x


def wrapped(kind):
    model = make(mlp)
    if kind == "compile":
        return torch.compile(model)
    if kind == "DataParallel":
        return nn.DataParallel(model)
    return type("DistributedDataParallel", (nn.Module,), {"__module__": "torch.nn.parallel.distributed"})()


def rescaler(**options):
    model = make(mlp)
    return swr.SoftWeightRescaling(model, inputs_of(model), **options)


def state_of_another_model():
    other = nn.Sequential(nn.Linear(3, 2))
    return swr.SoftWeightRescaling(other, torch.randn(1, 3)).state_dict()


def attach_twice():
    ours = rescaler()
    optimizer = torch.optim.SGD(ours.model.parameters(), lr=0.1)
    ours.attach(optimizer)
    ours.attach(optimizer)


def rescale_by(scalers):
    model = make(mlp, dtype=torch.float32)
    swr.rescale(model, swr.analyze(model, inputs_of(model)), scalers)


CASES = {
    "coefficient above one": (lambda: rescaler(coefficient=1.5), swr.OptionError, "between 0 and 1, found 1.5"),
    "negative coefficient": (lambda: rescaler(coefficient=-1e-3), swr.OptionError, "between 0 and 1, found -0.001"),
    "coefficient NaN": (lambda: rescaler(coefficient=float("nan")), swr.OptionError, "between 0 and 1, found nan"),
    "coefficient NaN in a pattern": (lambda: rescaler(coefficient={"*": float("nan")}), swr.OptionError, "λ for '*'"),
    "coefficient of another type": (lambda: rescaler(coefficient="big"), swr.OptionError, "must be a number"),
    "no patterns": (lambda: rescaler(coefficient={}), swr.OptionError, "empty mapping"),
    "a weight without pattern": (lambda: rescaler(coefficient={"0.*": 0.1}), swr.OptionError, "matches the weight '2.weight'"),
    "a pattern without weight": (
        lambda: rescaler(coefficient={"head.*": 0.1, "*": 0.1}),
        swr.OptionError,
        "'head.*'.* no weight",
    ),
    "every zero": (lambda: rescaler(every=0), swr.OptionError, "at least 1, found 0"),
    "every half": (lambda: rescaler(every=0.5), swr.OptionError, "whole number"),
    "unknown on_lr_decay": (lambda: rescaler(on_lr_decay="reset"), swr.OptionError, "ignore, rebase, follow, follow-squared"),
    "unknown inhomogeneous": (lambda: rescaler(inhomogeneous="skip"), swr.OptionError, '"hold", "pass", "raise" or "free"'),
    "no inputs and no plan": (lambda: swr.SoftWeightRescaling(make(mlp)), swr.OptionError, "example inputs are needed"),
    "no parameters": (lambda: swr.analyze(nn.ReLU(), torch.ones(1)), swr.ModelError, "has no parameters"),
    "chain without parameters": (lambda: swr.chain(nn.ReLU()), swr.ModelError, "has no parameters"),
    "not a module": (lambda: swr.analyze(lambda x: x, torch.ones(1)), swr.ModelError, "expected a torch.nn.Module"),
    "inputs of another shape": (
        lambda: swr.analyze(make(mlp), torch.ones(2, 5)),
        swr.InputsError,
        r"rejects .*float32\[2, 5\]",
    ),
    "too many inputs": (lambda: swr.analyze(make(mlp), (1, 2, 3)), swr.InputsError, "rejects the example inputs"),
    "data-dependent control flow": (lambda: swr.analyze(Branching(), torch.ones(2, 4)), swr.ModelError, r"torch\.cond"),
    "compiled model": (
        lambda: swr.analyze(wrapped("compile"), torch.ones(2, 12)),
        swr.ModelError,
        "torch.compile; analyse the plain",
    ),
    "DataParallel": (
        lambda: swr.analyze(wrapped("DataParallel"), torch.ones(2, 12)),
        swr.ModelError,
        "already wrapped by DataPar",
    ),
    "DDP": (lambda: swr.analyze(wrapped("DDP"), torch.ones(2, 12)), swr.ModelError, "already wrapped by DistributedDataPar"),
    "inhomogeneous refused": (
        lambda: swr.analyze(nn.Sequential(nn.Linear(4, 4), nn.GELU()), torch.ones(1, 4), inhomogeneous="raise"),
        swr.ModelError,
        "not homogeneous: gelu at 1",
    ),
    "no optimizer": (lambda: rescaler().attach(None), swr.AttachError, "expected a torch.optim.Optimizer, found NoneType"),
    "an optimizer of another model": (
        lambda: rescaler().attach(torch.optim.SGD(make(mlp).parameters(), lr=0.1)),
        swr.AttachError,
        "holds none of this model's parameters",
    ),
    "attached twice": (attach_twice, swr.AttachError, "already attached"),
    "step without the optimizer it should watch": (
        lambda: rescaler(coefficient=1e-3, on_lr_decay="follow").step(),
        swr.AttachError,
        "call attach",
    ),
    "a state of another model": (lambda: rescaler().load_state_dict(state_of_another_model()), swr.StateError, "another model"),
    "something else as state": (lambda: rescaler().load_state_dict({"a": 1}), swr.StateError, "not the state .* found a"),
    "a plan of another model": (
        lambda: swr.SoftWeightRescaling(make(mlp), plan=swr.chain(nn.Linear(3, 2))),
        swr.PlanError,
        "belongs to another model",
    ),
    "a plan and an analysis option": (
        lambda: swr.SoftWeightRescaling(make(mlp), plan=swr.chain(make(mlp)), inhomogeneous="pass"),
        swr.OptionError,
        "belongs to the analysis",
    ),
    "rescale of another model": (
        lambda: swr.rescale(make(mlp), swr.chain(nn.Linear(3, 2)), {}),
        swr.PlanError,
        "another model",
    ),
    "rescale of no weight": (lambda: rescale_by({"0.bias": 2.0}), swr.PlanError, "'0.bias' is not a weight"),
    "rescale by zero": (lambda: rescale_by({"0.weight": 0.0}), swr.OptionError, "positive and finite, found 0.0"),
    "rescale by a text": (lambda: rescale_by({"0.weight": "big"}), swr.OptionError, "positive and finite, found 'big'"),
    "rescale by more than a float holds": (
        lambda: rescale_by({"0.weight": 1e300}),
        swr.OptionError,
        r"0\.weight would be multiplied by 1e\+300.* leave the range of float32",
    ),
    "rescale to nothing": (lambda: rescale_by({"0.weight": 1e-300}), swr.OptionError, "leave the range of float32"),
    "inputs of another dtype": (
        lambda: swr.analyze(make(mlp), inputs_of(make(mlp)).float()),
        swr.InputsError,
        "another dtype than the model: 0 multiplies float32 by float64; convert the inputs",
    ),
    "integers for a model of floats": (
        lambda: swr.analyze(make(mlp), inputs_of(make(mlp)).long()),
        swr.InputsError,
        "another dtype than the model: 0 multiplies int64 by float64",
    ),
    "a text that is no plan": (lambda: swr.ScalePlan.from_json("[]"), swr.PlanError, "not the text of a plan"),
    "a broken plan": (lambda: swr.ScalePlan.from_json("{"), swr.PlanError, "not the text of a plan"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_sentence(case):
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, swr.SWRError)
    assert "\n" not in message
    assert message.endswith(".")


def test_a_refused_call_changes_neither_model_nor_state():
    ours = rescaler(coefficient=0.1)
    before, state = copy.deepcopy(ours.model.state_dict()), ours.state_dict()
    optimizer = torch.optim.SGD(ours.model.parameters(), lr=0.1)
    with pytest.raises(swr.StateError):
        ours.load_state_dict(state_of_another_model())
    with pytest.raises(swr.PlanError):
        swr.rescale(ours.model, ours.plan, {"0.weight": 0.5, "nothing": 2.0})
    with pytest.raises(swr.AttachError):
        ours.attach(torch.optim.SGD(make(mlp).parameters(), lr=0.1))
    assert ours.state_dict() == state
    assert all(torch.equal(before[name], value) for name, value in ours.model.state_dict().items())
    ours.attach(optimizer)  # still possible


def test_analysis_changes_neither_the_model_nor_the_random_state():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before, random = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    swr.analyze(model, torch.ones(3, 4)).verify(model, torch.ones(3, 4))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.random.get_rng_state())
