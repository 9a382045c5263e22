"""What every method that recycles units must do: look at training passes alone, resume exactly, say what it cannot do."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import swr
from swr import methods
from swr.bench.data import load
from swr.bench.experiments import RunConfig
from swr.bench.training import Training
from swr.errors import InputsError, ModelError, OptionError, StateError
from swr.units import find_units

from ..methods_table import Loop, changed
from ..unit_helpers import X, passed, small, tensors

NAMES = ("redo", "continual-backprop", "self-normalized-resets")


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_copies_and_traces_are_not_looked_at(name: str):
    model = small()
    method = methods.build(name, model, X, **({"every": 1} if name == "redo" else {}))
    seen = []
    method.see = lambda layer, activation: seen.append(layer)
    model.eval()(X)
    model.train()
    with torch.no_grad():
        model(X)
    copied = copy.deepcopy(model)
    copied(X)
    pickle.loads(pickle.dumps(model))(X)
    swr.analyze(model, X)
    find_units(model, X)
    assert not seen
    model(X)
    assert seen == [0]
    method.close()
    model(X)
    assert seen == [0]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_hides_its_activations_is_noticed(name: str):
    model = small()
    method = methods.build(name, model, X, **({"every": 1} if name == "redo" else {}))
    passed(model, method)
    torch.compiler.reset()
    hidden = torch.compile(model, backend="eager")
    for _ in range(99):
        hidden(X)
        method.step()
    with pytest.raises(ModelError, match=r"100 steps without a training pass.*torch\.compile"):
        method.step()


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_of_the_digits_is_learnt_from(name: str):
    hyper = {"redo": (("every", 10.0),), "continual-backprop": (("maturity", 10.0),)}.get(name, (("longest", 500.0),))
    config = RunConfig("generalization", "digits-mlp", name, hyper, epochs=(1,), batch_size=32)
    training = Training(config, load("digits"))
    epoch = training.epoch()
    assert epoch.test_accuracy > 0.6


@pytest.mark.parametrize("name", NAMES)
def test_inner_units_of_residual_networks_and_transformers_are_recycled(name: str):
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.norm, self.head = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3)
            self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = self.enter(x)
            return self.head(x + self.down(F.gelu(self.up(self.norm(x)))))

    torch.manual_seed(0)
    model, x = Block(), torch.randn(5, 7, 4)
    with torch.no_grad():
        model.up.bias.fill_(2.0)
        model.up.bias[3] = -1e4  # gelu is exactly 0 there
    options = {
        "redo": {"every": 1, "threshold": 0.0},
        "continual-backprop": {"rate": 0.13, "maturity": 0},
        "self-normalized-resets": {"longest": 5},
    }[name]
    method = methods.build(name, model, x, **options)
    assert [layer.name for layer in method.units.layers] == ["up"]
    before, outputs = tensors(model), model(x)
    method.step()
    assert changed(before, tensors(model)) == {"up.weight", "up.bias", "down.weight"}
    assert model.down.weight[:, 3].eq(0).all()
    assert model.down.weight.eq(0).sum() == 6
    torch.testing.assert_close(model(x), outputs)


@pytest.mark.parametrize("name", NAMES)
def test_resumes_in_the_middle_of_an_interval_bit_for_bit(name: str):
    hyper = {
        "redo": {"threshold": 0.4, "every": 3},
        "continual-backprop": {"rate": 0.05, "maturity": 3},
        "self-normalized-resets": {"longest": 18, "every": 1, "rejection": 0.3},
    }[name]
    loop = Loop("cnnbn", name, hyper)
    loop.train(0, 7)
    file = io.BytesIO()
    torch.save([loop.model.state_dict(), loop.optimizer.state_dict(), loop.method.state_dict()], file)
    file.seek(0)
    model, optimizer, method = torch.load(file, weights_only=True)
    again = Loop("cnnbn", name, hyper, seed=3)
    again.model.load_state_dict(model)
    again.optimizer.load_state_dict(optimizer)
    again.method.load_state_dict(method)
    plain = Loop("cnnbn", "vanilla", {})
    plain.model.load_state_dict(model)
    plain.optimizer.load_state_dict(optimizer)
    for one in (loop, again, plain):
        one.train(7, 17)
        one.new_task()
        one.train(17, 27)
    assert not changed(loop.tensors(), again.tensors())
    assert changed(loop.tensors(), plain.tensors())


@pytest.mark.parametrize("name", NAMES)
def test_a_state_of_other_units_is_refused(name: str):
    one = methods.build(name, small(), X)
    other = methods.build(name, nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)), X)
    with pytest.raises(StateError, match="another model"):
        one.load_state_dict(other.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_without_inputs_or_units_there_is_a_clear_error(name: str):
    with pytest.raises(InputsError, match="pass example_inputs"):
        methods.build(name, small())
    with pytest.raises(ModelError, match=r"no unit of this model can be recycled:\n0 +left alone: it is an output"):
        methods.build(name, nn.Sequential(nn.Linear(2, 1)), X)
    with pytest.raises(OptionError, match="optimizer_state"):
        methods.build(name, small(), X, optimizer_state="burn")


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("redo", {"every": 0}),
        ("continual-backprop", {"rate": 1.5}),
        ("continual-backprop", {"maturity": -1}),
        ("continual-backprop", {"decay": -0.1}),
        ("self-normalized-resets", {"rejection": 2.0}),
        ("self-normalized-resets", {"every": 0.5}),
        ("self-normalized-resets", {"counted_in": "epochs"}),
    ],
)
def test_options_out_of_range_are_refused(name: str, wrong: dict[str, object]):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        methods.build(name, small(), X, **wrong)
