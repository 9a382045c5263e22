"""verify: a number to compare where there is something to compare, one sentence where there is not."""

import copy
import gc
import os
import pickle
import threading
import warnings
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import swr
from nets import cnn_bn, inputs_of, make
from swr.algebra.forms import ZERO
from swr.algebra.verify import Deviation
from untraceable import is_one_sentence
from zoo import ZOO

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def net(**options) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6, **options), nn.ReLU(), nn.Linear(6, 3, **options))


def old_weight_norm(layer: nn.Module) -> nn.Module:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return nn.utils.weight_norm(layer)


def changed(change, forward: bool = False) -> nn.Module:
    model = net()
    change(model[0])
    if forward:
        model(X)
    return model


class Remembering(nn.Module):
    """Keeps what it computed last, as monitors do, in a list and as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.seen = net(), []

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.layers(x)
        self.seen.append(self.last)
        return self.last


def remembering() -> nn.Module:
    model = Remembering()
    model(X)
    return model


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 6, dtype=torch.complex64), nn.Linear(6, 3, dtype=torch.complex64)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class Spectrum(nn.Module):
    """Real weights, complex outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return torch.view_as_complex(torch.stack([y, 2 * y], -1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0])


KINDS = {
    "plain": (net, X),
    "pruned": (lambda: changed(lambda layer: prune.l1_unstructured(layer, "weight", 0.5)), X),
    "pruned and run": (lambda: changed(lambda layer: prune.l1_unstructured(layer, "weight", 0.5), forward=True), X),
    "weight-normed by a hook": (lambda: changed(old_weight_norm), X),
    "weight-normed by a hook and run": (lambda: changed(old_weight_norm, forward=True), X),
    "weight-normed by a parametrisation": (lambda: changed(parametrizations.weight_norm, forward=True), X),
    "spectral-normed by a hook": (lambda: changed(nn.utils.spectral_norm, forward=True), X),
    "spectral-normed by a parametrisation": (lambda: changed(parametrizations.spectral_norm, forward=True), X),
    "remembering its outputs": (remembering, X),
    "complex": (Complex, X.to(torch.complex64)),
    "complex outputs": (Spectrum, X),
    "recurrent": (Recurrent, X),
    "half precision": (lambda: net().bfloat16(), X.bfloat16()),
    "frozen in part": (lambda: changed(lambda layer: layer.requires_grad_(False)), X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_measured_and_left_alone(kind):
    build, inputs = KINDS[kind]
    model = build()
    plan = swr.analyze(model, inputs)
    before, random, given = copy.deepcopy(model.state_dict()), torch.random.get_rng_state(), inputs.clone()
    assert plan.scaled
    assert plan.verify(model, inputs) < 1e-12
    assert torch.equal(random, torch.random.get_rng_state())
    assert torch.equal(given, inputs)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_and_a_wrong_plan_is_noticed(kind):
    build, inputs = KINDS[kind]
    model = build()
    plan = swr.analyze(model, inputs)
    assert replace(plan, output=ZERO).verify(model, inputs) > 1e-2
    without_biases = replace(plan, followers=(), equations=())
    assert without_biases.scaled != plan.scaled
    assert without_biases.verify(model, inputs) > 1e-3


def nan_in(name: str) -> nn.Module:
    model = net()
    with torch.no_grad():
        model.get_parameter(name).flatten()[0] = torch.nan
    return model


def zeroed() -> nn.Module:
    model = net()
    for parameter in model[2].parameters():
        nn.init.zeros_(parameter)
    return model


class Choice(nn.Module):
    """Returns the answer alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).argmax(-1)


class Undefined(Choice):
    """0 / 0 whatever it is given."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return (y - y) / (y - y)


class Single(Choice):
    """Insists on float32."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.float())


class Locked(Choice):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


REFUSED = {
    "NaN weights": (lambda: nan_in("0.weight"), X, swr.ModelError, r"0\.weight holds NaN or infinite values"),
    "NaN biases": (lambda: nan_in("2.bias"), X, swr.ModelError, r"2\.bias holds NaN or infinite values"),
    "NaN inputs": (net, X.clone().fill_diagonal_(torch.nan), swr.InputsError, r"inputs \(float32\[5, 4\]\) hold NaN"),
    "an empty batch": (net, X[:0], swr.InputsError, r"empty tensors .*\(float32\[0, 4\]\); pass at least one example"),
    "another shape": (net, X[:, :3], swr.InputsError, r"rejects the example inputs \(float32\[5, 3\]\)"),
    "outputs that are all zero": (zeroed, X, swr.InputsError, "only zeros or infinities .*every rescale keeps"),
    "outputs that are NaN": (Undefined, X, swr.ModelError, r"returns NaN for the example inputs \(float32\[5, 4\]\)"),
    "no output with a scale": (Choice, X, swr.ModelError, "no floating-point tensor"),
    "no values": (lambda: net().to("meta"), X, swr.ModelError, r"0\.weight is on the meta device"),
    "float32 alone": (Single, X, swr.ModelError, "does not run in float64"),
    "no copy": (Locked, X, swr.ModelError, r"cannot be copied \(cannot pickle '_thread\.lock' object\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_compares_with_nothing_is_refused_in_one_sentence(case):
    build, inputs, kind, text = REFUSED[case]
    model = build()
    plan = swr.analyze(model, X)
    with pytest.raises(kind, match=text) as caught:
        plan.verify(model, inputs)
    assert is_one_sentence(str(caught.value))


def test_nan_in_a_keyword_input_is_refused():
    plan = swr.analyze(net(), X)
    with pytest.raises(swr.InputsError, match=r"input=float32\[5, 4\]\) hold NaN"):
        plan.verify(net(), kwargs={"input": X * torch.nan})


class Answering(nn.Module):
    """Logits, the chosen class, a mask of infinities, and an output of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.layers(x)
        return {"logits": y, "class": y.argmax(-1), "mask": torch.full_like(y, -torch.inf), "zero": 0 * y, "none": y[:0]}


def test_outputs_without_a_scale_must_stay_and_those_that_say_nothing_are_counted():
    model = Answering()
    found = swr.analyze(model, X).verify(model, X)
    assert found < 1e-12
    assert repr(found).endswith("; 2 of 5 outputs all zero or infinite, which every rescale keeps")


def test_a_plan_that_scales_nothing_says_that_nothing_was_tried():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    found = swr.analyze(model, X).verify(model, X)
    assert found == 0
    assert repr(found) == "0.0e+00; the plan scales nothing, so nothing was tried"


class Counting(nn.Module):
    """An integer that depends on the size of the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layers(x)
        return y, (1000 * y).long()


def test_an_integer_output_that_changes_is_an_infinite_deviation():
    model = Counting()
    plan = swr.analyze(model, X)
    assert plan.verify(model, X) < 1e-12
    free = swr.analyze(Answering(), X)
    assert free.free
    assert free.verify(model, X) == torch.inf


def gpt2() -> tuple[nn.Module, dict[str, Tensor]]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), {"input_ids": torch.randint(50, (2, 8))}


def llama() -> tuple[nn.Module, dict[str, Tensor]]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=2, vocab_size=50
    )
    return transformers.LlamaForCausalLM(config), {"input_ids": torch.randint(50, (2, 8))}


def encoder() -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # that a faster path is closed
        return nn.TransformerEncoder(layer, 2), {"src": 0.01 * torch.randn(2, 5, 16)}


def resnet() -> tuple[nn.Module, dict[str, Tensor]]:
    network = next(network for network in ZOO if network.name == "resnet basic blocks")
    return network.make(), {"x": network.inputs()[0]}


def bn() -> tuple[nn.Module, dict[str, Tensor]]:
    model = make(cnn_bn)
    return model, {"input": 0.01 * inputs_of(model)}


NORMALISED = {
    "GPT-2": (gpt2, 5),
    "Llama": (llama, 5),
    "transformer": (encoder, 4),
    "resnet": (resnet, None),
    "BatchNorm": (bn, 2),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NORMALISED)
def test_the_epsilons_are_told_apart_from_the_plan(name, training):
    build, guards = NORMALISED[name]
    model, inputs = build()
    model.train(training)
    plan = swr.analyze(model, kwargs=inputs)
    found = plan.verify(model, kwargs=inputs)
    assert plan.scaled
    assert found < 1e-6
    assert found.total > 10 * found
    assert found.epsilon == found.total - float(found)
    assert guards is None or found.guards == guards
    assert all(getattr(module, "eps", 1.0) > 1e-10 for module in model.modules())


def test_the_epsilons_of_a_small_gpt2_alone_are_above_a_thousandth():
    model, inputs = gpt2()
    plan = swr.analyze(model.eval(), kwargs=inputs)
    assert max(plan.verify(model, kwargs=inputs, seed=seed).total for seed in range(3)) > 1e-3


class Functional(nn.Module):
    """A normalisation whose epsilon is a number in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.layer_norm(self.a(x), (6,), eps=1e-5))


def test_an_epsilon_written_in_a_forward_counts_in_full():
    model = Functional()
    found = swr.analyze(model, X).verify(model, X)
    assert 1e-9 < found < 1e-3
    assert (found.total, found.guards, found.epsilon) == (float(found), 0, 0.0)


def test_a_large_epsilon_is_part_of_the_function():
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6, eps=0.5), nn.Linear(6, 3))
    wrong = swr.analyze(nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3)), X)
    assert wrong.verify(model, X) > 1e-2


def test_a_constant_channel_is_no_deviation():
    """Its variance is rounding, which an epsilon of zero would divide by."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    nn.init.zeros_(model[0].weight)
    found = swr.analyze(model, X).verify(model, 0.1 + 0 * X)
    assert found < 1e-6


DEVIATIONS = {
    "exact": (Deviation(0.0), "0.0e+00"),
    "without normalisation": (Deviation(3.14e-16), "3.1e-16"),
    "with one": (Deviation(1e-12, 2e-4, guards=1), "1.0e-12, and 2.0e-04 with the epsilons of 1 module"),
    "with a note": (Deviation(1e-12, notes=("one output is zero",)), "1.0e-12; one output is zero"),
}


@pytest.mark.parametrize("case", DEVIATIONS)
def test_a_deviation_is_a_number_that_explains_itself(case):
    found, text = DEVIATIONS[case]
    assert repr(found) == str(found) == f"{found}" == text
    assert isinstance(found, float)
    assert f"{found:.3e}" == f"{float(found):.3e}"
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.total, again.guards, again.notes) == (found, found.total, found.guards, found.notes)
    assert copy.deepcopy(found).total == found.total


class Census(nn.Module):
    """Counts the float64 copies of its weight that are alive while it runs."""

    alive: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 17), nn.LayerNorm(17), nn.Linear(17, 3)

    def forward(self, x: Tensor) -> Tensor:
        parameters = [o for o in gc.get_objects() if type(o) is nn.Parameter]
        self.alive.append(sum(p.shape == (17, 4) and p.dtype == torch.float64 for p in parameters))
        return self.b(self.norm(self.a(x)))


def test_one_float64_copy_lives_at_a_time():
    model = Census()
    plan = swr.analyze(model, X)
    Census.alive.clear()
    plan.verify(model, X)
    assert Census.alive == [1, 1, 1, 1]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_a_sparse_output_is_compared_entry_by_entry():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x).to_sparse_csr()

    model, x = Sparse(), torch.randn(4, 3)
    plan = swr.analyze(model.layer, x)
    named = swr.ScalePlan.from_json(plan.to_json().replace('"weight"', '"layer.weight"').replace('"bias"', '"layer.bias"'))
    assert named.verify(model, x) < 1e-12
    wrong = swr.ScalePlan.from_json(named.to_json().replace('"output": {"layer.weight": 1.0}', '"output": {}'))
    assert wrong.verify(model, x) > 1e-3
