"""Tracing: what is traced that looks as if it could not be, and one sentence about what cannot."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import transformer
from torch.nn.utils import prune

import swr
from swr.algebra.graph import trace
from untraceable import (
    Answering,
    CheckedChain,
    CheckedResidual,
    Counting,
    Layers,
    Leaving,
    Looping,
    Skipping,
    Weighing,
    is_one_sentence,
    make,
)

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))

# model, inputs, the cause, the way out, whether a chain is one
CAUSES = {
    "a branch in a chain": (CheckedChain, X, r"branches .*untraceable\.py:\d+ \(`if torch\.isnan", r"torch\.cond", True),
    "a branch in a residual network": (CheckedResidual, X, r"branches .*untraceable\.py:\d+ \(`if", r"torch\.where", False),
    "a layer that is skipped for some inputs": (Skipping, X.abs(), r"branches .*\(`x = self\.b", r"torch\.cond", False),
    "a while loop": (Looping, X, r"loops .*untraceable\.py:\d+ \(`while x\.norm", "Python integer", False),
    "a counted loop": (Counting, (X, torch.tensor(3)), r"loops .*\(`for _ in range", "Python integer", False),
    "a number": (Weighing, X, r"as a Python number .*\(`size = float", r"keep it a tensor \(no \.item\(\)", True),
    "numpy": (Leaving, X, r"RuntimeError at untraceable\.py:\d+ \(`x = torch\.from_numpy", "with torch operators", True),
    "a container": (Answering, X, "Found .*Answer.* not a known type", "tensors, tuples and dictionaries", False),
}


@pytest.mark.parametrize("case", CAUSES)
def test_what_cannot_be_traced_is_named_with_its_place_and_the_way_out(case, capfd):
    build, inputs, cause, remedy, is_chain = CAUSES[case]
    with pytest.raises(swr.ModelError, match=f"{build.__name__} cannot be traced: .*{cause}.*; .*{remedy}") as caught:
        swr.analyze(make(build), inputs)
    assert is_one_sentence(str(caught.value))
    assert ("swr.chain(model, example_inputs)" in str(caught.value)) is is_chain
    assert capfd.readouterr() == ("", "")


class Where(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.where(x.sum() > 0, self.b(self.a(x).relu()), x))


class Cond(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).relu())
        return self.head(torch.cond(y.sum() > 0, lambda y: y.clone(), lambda y: -y, (y,)))


class Rounds(Layers):
    def forward(self, x: Tensor, rounds: int) -> Tensor:
        for _ in range(rounds):
            x = self.a(x).relu()
        return self.head(self.b(x))


class WeighingTensor(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.b(self.a(x).relu()).relu()) * x.abs().max()


WAYS_OUT = {
    "torch.where": (Where, X),
    "torch.cond": (Cond, X),
    "a Python integer": (Rounds, (X, 3)),
    "a tensor": (WeighingTensor, X),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_the_ways_out_lead_out(way):
    build, inputs = WAYS_OUT[way]
    model = make(build)
    plan = swr.analyze(model, inputs)
    assert "head.weight" in plan.free
    assert plan.verify(model, inputs) < 1e-12


def causal(size: int) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(size)


def banded(size: int) -> Tensor:
    return torch.zeros(size, size).masked_fill(torch.ones(size, size).triu(2).bool(), -torch.inf)


@pytest.mark.parametrize("mask", [causal, banded])
@pytest.mark.parametrize("training", [True, False])
def test_masks_of_transformers_are_traced_whether_causal_or_not(mask, training):
    torch.manual_seed(0)
    detect = transformer._detect_is_causal_mask
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).train(training)
    inputs, masks = (torch.randn(2, 5, 16), torch.randn(2, 5, 16)), {"src_mask": mask(5), "tgt_mask": mask(5)}
    plan = swr.analyze(model, inputs, masks)
    assert len(plan.free) >= 5
    assert plan.verify(model, inputs, masks) < 1e-9
    assert transformer._detect_is_causal_mask is detect


SCRIPT = """
import torch, swr
from untraceable import CheckedResidual, make
try:
    swr.analyze(make(CheckedResidual), torch.ones(4, 6))
except swr.ModelError as error:
    print(error)
"""


def test_a_process_that_fails_to_trace_prints_nothing_but_the_sentence():
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "PYTHONWARN"))}
    environment["PYTHONPATH"] = paths
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert re.fullmatch(r"CheckedResidual cannot be traced: [^\n]*\n", run.stdout)


class Talking(Layers):
    """Prints and warns, and cannot be traced."""

    def forward(self, x: Tensor) -> Tensor:
        print("half way", file=sys.stderr)
        return self.head(x) if x.sum() > 0 else x


def test_what_a_forward_prints_is_passed_on(capsys):
    with pytest.raises(swr.ModelError):
        trace(make(Talking), (X,))
    printed = capsys.readouterr().err
    assert set(printed.splitlines()) == {"half way"}


@pytest.mark.parametrize("change", [nn.utils.weight_norm, lambda layer: prune.l1_unstructured(layer, "weight", 0.5)])
def test_a_failed_trace_leaves_the_model_as_it_was(change):
    model = make(CheckedResidual)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        change(model.a)
    state, output = {name: value.clone() for name, value in model.state_dict().items()}, model(X)
    with pytest.raises(swr.ModelError, match="cannot be traced"):
        swr.analyze(model, X)
    assert type(model.a.weight) is Tensor
    assert torch.equal(model(X), output)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_a_rejected_input_is_told_from_a_model_that_cannot_be_traced():
    with pytest.raises(swr.InputsError, match=r"rejects the example inputs \(float32\[4, 5\]\)") as caught:
        swr.analyze(make(CheckedChain), X[:, :5])
    assert is_one_sentence(str(caught.value))


def test_lazy_layers_are_asked_to_run_first():
    for plan_of in (lambda model: swr.analyze(model, X), swr.chain):
        with pytest.raises(swr.ModelError, match=r"1\.weight is not initialised yet; run one batch") as caught:
            plan_of(nn.Sequential(nn.Linear(6, 6), nn.LazyLinear(3)))
        assert is_one_sentence(str(caught.value))


@pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")
def test_a_scripted_model_is_refused():
    with pytest.raises(swr.ModelError, match=r"already wrapped by torch\.jit; analyse the plain model"):
        swr.analyze(torch.jit.script(nn.Sequential(nn.Linear(6, 3))), X)


class TwoNames(nn.Module):
    """Every layer is registered twice, as in many networks of the literature."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.head = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.layers = nn.Sequential(self.fc, self.norm, nn.ReLU(), self.head)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.parametrize("training", [True, False])
def test_layers_with_two_names_are_known_by_the_first(training):
    torch.manual_seed(0)
    model = TwoNames().train(training)
    plan = swr.analyze(model, X)
    assert set(plan.scaled) == {*dict(model.named_parameters()), "norm.running_mean", "norm.running_var"}
    assert model.norm.training is training
    assert plan.verify(model, X) < 1e-9
    assert swr.chain(model, X).free == plan.free
