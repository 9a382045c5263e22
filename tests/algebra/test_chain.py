"""Chains: plans from registration order, given out only where that order is known or was tried."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import swr
from nets import cnn_bn, inputs_of, mlp
from nets import make as make_net
from untraceable import CheckedChain, CheckedResidual, Layers, Leaving, Looping, Skipping, Weighing, is_one_sentence, make

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def shared(layer: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, 6), layer, nn.Linear(6, 3))


SEQUENCES = {
    "mlp": (lambda: make_net(mlp), inputs_of),
    "cnn with BatchNorm": (lambda: make_net(cnn_bn), inputs_of),
    "an activation that is used twice": (lambda: shared(nn.GELU()), lambda _: X),
    "a layer that is used twice": (lambda: shared(nn.Linear(6, 6)), lambda _: X),
    "a normalisation that is used twice": (lambda: shared(nn.BatchNorm1d(6)), lambda _: X),
    "sequences in a sequence": (lambda: nn.Sequential(shared(nn.ReLU()), nn.PReLU(), nn.Linear(3, 2)), lambda _: X),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_a_sequence_needs_no_inputs_and_gets_the_traced_plan(case):
    build, inputs = SEQUENCES[case]
    model = build()
    x = inputs(model)
    traced, chained = swr.analyze(model, x), swr.chain(model)
    assert chained.scaled
    assert traced.scaled == chained.scaled
    torch.testing.assert_close(traced.matrix(traced.scaled), chained.matrix(traced.scaled))
    torch.testing.assert_close(traced.output_row, chained.output_row)
    assert swr.chain(model, x) == chained


def test_a_chain_holds_before_modules_it_does_not_know():
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2), nn.LSTM(2, 2))
    plan = swr.chain(model)
    assert plan.held[:1] == ("0.weight",)
    assert set(plan.coupled) == {"2.weight", "4.weight"}
    assert "5.weight_ih_l0" in plan.held


def test_an_embedding_that_renormalises_its_rows_is_held():
    model = nn.Sequential(nn.Embedding(6, 6, max_norm=1.0), nn.Linear(6, 3))
    plan = swr.chain(model)
    assert (plan.held, plan.free) == (("0.weight",), ("1.weight",))
    assert plan.verify(model, torch.arange(5)) < 1e-12


@pytest.mark.parametrize(("eps", "free"), [(1e-3, ("0.weight", "1.weight", "2.weight")), (0.5, ("1.weight", "2.weight"))])
def test_an_epsilon_that_is_part_of_the_function_holds_its_input(eps, free):
    model = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6, eps=eps), nn.Linear(6, 3))
    plan = swr.chain(model)
    assert plan.free == free
    assert plan.verify(model, X) < 1e-9


class Zeroed(CheckedResidual):
    """A residual network whose branch starts at zero: it is its head alone, until it is trained."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)


class ResidualInEvaluation(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).relu())
        return self.head(y if self.training else x + y)


class Backwards(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu())[:, :3] + self.head(x)


def translation() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor]]:
    torch.manual_seed(0)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    return nn.Transformer(16, 2, 1, 1, 32, batch_first=True), (torch.randn(2, 5, 16), torch.randn(2, 5, 16)), {"tgt_mask": mask}


NO_CHAINS = {
    "a transformer with a mask": (translation, "training"),
    "a residual network with a branch": (lambda: (make(CheckedResidual), X, {}), "training"),
    "a while loop": (lambda: (make(Looping), X, {}), "training"),
    "a residual branch that starts at zero": (lambda: (make(Zeroed), X, {}), "training"),
    "a residual network in evaluation only": (lambda: (make(ResidualInEvaluation), X, {}), "evaluation"),
    "two branches": (lambda: (make(Backwards), X, {}), "training"),
    "a chain for other inputs": (lambda: (make(Skipping), -X.abs(), {}), "training"),
}


@pytest.mark.parametrize("case", NO_CHAINS)
def test_what_is_no_chain_is_refused_with_the_measured_deviation(case):
    build, mode = NO_CHAINS[case]
    model, inputs, kwargs = build()
    with pytest.raises(swr.ModelError, match=rf"not a chain: .* in {mode} mode .* use swr\.analyze") as caught:
        swr.chain(model, inputs, kwargs)
    assert is_one_sentence(str(caught.value))
    (measured,) = re.findall(r"by (\S+) of their size", str(caught.value))
    assert float(measured) > 1e-2


class Normalised(Layers):
    """A chain with everything that behaves differently in training, and a look at the values."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x).relu()
        assert not torch.isnan(x).any()
        return self.head(self.b(x).relu())


@pytest.mark.parametrize("build", [CheckedChain, Weighing, Leaving, Normalised])
@pytest.mark.parametrize("training", [True, False])
def test_a_chain_that_cannot_be_traced_is_tried_and_works(build, training):
    model = make(build).train(training)
    before, random = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    plan = swr.chain(model, X)
    assert len(plan.free) >= 3
    assert model.training is training
    assert torch.equal(random, torch.random.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model.double().eval()
    old = model(X.double()) if build is not Leaving else model.float()(X)
    constant = swr.rescale(model, plan, dict.fromkeys(plan.free, 2.0))
    assert constant != 1
    new = model(X.double()) if build is not Leaving else model(X)
    torch.testing.assert_close(new, constant * old, rtol=1e-4, atol=1e-4)


def test_keyword_inputs_are_taken():
    model = make(CheckedChain)
    assert swr.chain(model, kwargs={"x": X}) == swr.chain(model, X)


def hooked() -> nn.Module:
    model = make_net(mlp)
    model[0].register_forward_hook(lambda module, args, out: out + 1)
    return model


def replaced_forward() -> nn.Module:
    model = make_net(mlp)
    model[0].forward = lambda x: x[:, :1].expand(-1, 16)
    return model


class Doubled(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


class Squared(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) ** 2


NOT_SEEN = {
    "a forward of one's own": lambda: make(CheckedChain),
    "a sequence with a forward of its own": lambda: Doubled(nn.Linear(12, 4)),
    "a layer with a forward of its own": lambda: nn.Sequential(Squared(12, 4), nn.Linear(4, 2)),
    "a hook": hooked,
    "a forward that was replaced": replaced_forward,
    "a parametrisation": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(12, 4)), nn.Linear(4, 2)),
    "a transformer": lambda: nn.TransformerEncoderLayer(4, 2, 8),
}


@pytest.mark.parametrize("case", NOT_SEEN)
def test_what_is_not_known_to_be_a_chain_needs_inputs(case):
    with pytest.raises(
        swr.OptionError, match=r"example inputs are needed .*; call swr\.chain\(model, example_inputs\)"
    ) as caught:
        swr.chain(NOT_SEEN[case]())
    assert is_one_sentence(str(caught.value))


@pytest.mark.parametrize("case", ["a sequence with a forward of its own", "a layer with a forward of its own", "a hook"])
def test_and_with_inputs_it_is_refused(case):
    with pytest.raises(swr.ModelError, match="not a chain"):
        swr.chain(NOT_SEEN[case](), inputs_of(NOT_SEEN[case]()))


REJECTED = {
    "one example for BatchNorm": (
        lambda: (make(Normalised), X[:1]),
        swr.InputsError,
        "rejects .*more than 1 value per channel",
    ),
    "another shape": (
        lambda: (make(CheckedChain), X[:, :5]),
        swr.InputsError,
        r"rejects the example inputs \(float32\[5, 5\]\)",
    ),
    "the meta device": (lambda: (make(CheckedChain).to("meta"), X), swr.ModelError, "meta device"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_cannot_be_tried_is_said_in_one_sentence(case):
    build, kind, text = REJECTED[case]
    model, inputs = build()
    with pytest.raises(kind, match=text) as caught:
        swr.chain(model, inputs)
    assert is_one_sentence(str(caught.value))
