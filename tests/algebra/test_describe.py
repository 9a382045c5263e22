"""A plan as text: what a stranger reads about GPT-2, a residual network and an MLP."""

import pytest
import torch
from torch import nn

import swr
from nets import gpt2, inputs_of, make, mlp
from swr.algebra.describe import table
from swr.algebra.plan import ScalePlan


@pytest.fixture(scope="module")
def language_model():
    return swr.analyze(gpt2(3), torch.arange(8)[None])


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.b, self.norm_b = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm_b(self.b(torch.relu(self.norm_a(self.a(x))))))


def resnet(blocks):
    stem, head = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()], [nn.Flatten(), nn.LazyLinear(10)]
    model = nn.Sequential(*stem, *(Block(4) for _ in range(blocks)), nn.AdaptiveAvgPool2d(1), *head)
    model(torch.randn(2, 3, 8, 8))
    return model


def rows_of(text):
    return {line.split()[0]: line for line in text.splitlines() if line.strip()}


def joined(text):
    """The text with its cells no longer wrapped."""
    return " ".join(text.split())


def test_the_share_of_entries_comes_first(language_model):
    first = language_model.describe().splitlines()[0]
    assert first == "39,200 weight entries: <0.1 % free, 99.9 % coupled, 0 % held."


@pytest.mark.parametrize("notes", [False, True])
def test_it_fits_100_columns(language_model, notes):
    remarks = {name: f"λ 0.001, anchor {i}.25" for i, name in enumerate(language_model.weights)} if notes else None
    text = table(language_model, remarks)
    assert max(map(len, text.splitlines())) <= 100
    assert ("anchor" in text) is notes


def test_blocks_that_are_alike_are_shown_once(language_model):
    text = language_model.describe()
    assert "transformer.h.0…2: 3 blocks alike" in text
    assert len(text.splitlines()) < 60
    shown = rows_of(text)
    assert {".ln_1.weight", ".attn.c_proj.bias", ".mlp.c_fc.weight", "transformer.wte.weight"} <= set(shown)
    assert "transformer.h.1.ln_1.weight" not in text


def test_a_block_that_differs_is_shown_by_itself():
    model = gpt2(3)
    model.transformer.h[1].mlp.c_fc.weight.requires_grad_(False)
    text = swr.analyze(model, torch.arange(8)[None]).describe()
    assert "alike" not in text
    assert "frozen" in rows_of(text)["transformer.h.1.mlp.c_fc.weight"]
    assert "transformer.h.2.mlp.c_fc.weight" in rows_of(text)


def test_the_gelu_is_named_not_the_addition_inside_it(language_model):
    solution = language_model.solution
    assert solution.restriction("transformer.h.0.ln_2.weight").reason == "tanh in NewGELUActivation at transformer.h.0.mlp.act"
    assert "tanh in NewGELUActivation at .mlp.act" in joined(language_model.describe())
    assert solution.restriction("transformer.h.0.attn.c_proj.weight").reason == "add at transformer.h.0"


def test_a_held_weight_names_the_operator_that_holds_it_through_additions():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(nn.functional.gelu(self.a(x) + self.b(x)))

    plan = swr.analyze(Sum(), torch.randn(2, 4))
    assert plan.held == ("a.weight", "b.weight")
    assert "gelu at the model" in rows_of(plan.describe())["b.weight"]


def test_a_constant_that_is_added_is_the_reason_itself():
    class Plus(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.b(torch.relu(self.a(x) + 1.0))

    assert swr.analyze(Plus(), torch.randn(2, 4)).solution.restriction("a.weight").reason == "add at the model"


def test_residual_blocks_are_grouped_with_their_running_statistics():
    text = swr.analyze(resnet(4), torch.randn(2, 3, 8, 8)).describe()
    assert "3…6: 4 blocks alike" in text
    rows = rows_of(text)
    assert "c(1.weight)·c(.a.weight): a running statistic" in rows[".norm_a.running_mean"]
    assert "with 1.weight, *.norm_b.weight: add in the block itself" in rows[".norm_b.weight"]


def test_a_chain_is_not_grouped_because_its_biases_differ():
    model = make(mlp)
    text = swr.analyze(model, inputs_of(model)).describe()
    assert set(dict(model.named_parameters())) <= set(rows_of(text))
    assert "100 % free" in text.splitlines()[0]


def test_notes_of_blocks_that_are_alike_become_ranges(language_model):
    notes = {f"transformer.h.{i}.mlp.c_fc.weight": f"λ 0.001, anchor {2.5 - i / 4:g}" for i in range(3)}
    assert "λ 0.001, anchor 2…2.5" in table(language_model, notes)
    notes["transformer.h.1.mlp.c_fc.weight"] = "λ 0.001, no anchor"
    text = table(language_model, notes)
    assert "alike" not in text
    assert "no anchor" in joined(text)


def test_a_rescaler_describes_a_language_model_within_100_columns():
    rescaler = swr.SoftWeightRescaling(gpt2(2), torch.arange(8)[None], coefficient=1e-3)
    text = rescaler.describe()
    assert max(map(len, text.splitlines())) <= 100
    assert "anchor" in text


def test_the_repr_is_one_line(language_model):
    counts = f"1 free, {len(language_model.coupled)} coupled, {len(language_model.followers)} followers"
    assert repr(language_model) == (f"ScalePlan(39,200 weight entries: <0.1 % free, 99.9 % coupled, 0 % held; {counts})")


def test_reasons_survive_json(language_model):
    again = ScalePlan.from_json(language_model.to_json())
    assert again == language_model
    assert again.describe() == language_model.describe()


def test_a_plan_stored_before_equations_had_a_kind_is_read():
    plan = swr.analyze(nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 2)), torch.randn(1, 3))
    text = plan.to_json().replace(", true]", "]").replace(", false]", "]")
    assert text != plan.to_json()
    assert ScalePlan.from_json(text).held == plan.held
