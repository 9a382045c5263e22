"""Plans as data: description, JSON, chains, mode and tied names."""

import torch
from torch import nn

import swr
from nets import cnn_bn, inputs_of, make, mlp


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.b(self.a(x).relu())
        return self.head(nn.functional.gelu(x))


def test_describe_names_every_parameter_with_role_and_reason():
    plan = swr.analyze(Residual(), torch.randn(2, 4))
    text = plan.describe()
    rows = {line.split()[0]: line for line in text.splitlines() if line}
    assert set(plan.shapes) <= set(rows)
    assert "held" in rows["stem.weight"]
    assert "gelu" in rows["stem.weight"]
    assert "coupled" in rows["a.weight"]
    assert "with b.weight" in rows["a.weight"]
    assert "add at the model" in rows["a.weight"]
    assert "free" in rows["head.weight"]
    assert "C = c(head.weight)" in text
    assert "1 free, 2 coupled, 1 held, 4 followers" in text


def test_the_residual_branch_is_scaled_by_opposite_factors():
    model = Residual().double()
    x = torch.randn(2, 4, dtype=torch.float64)
    plan = swr.analyze(model, x)
    before = model.a.weight.detach().clone(), model.b.weight.detach().clone()
    swr.rescale(model, plan, {"a.weight": 4.0})
    torch.testing.assert_close(model.a.weight, before[0] * 2)
    torch.testing.assert_close(model.b.weight, before[1] / 2)
    assert plan.verify(model, x) < 1e-12


def test_a_chain_plan_equals_the_traced_one_on_a_chain():
    for build in (mlp, cnn_bn):
        model = make(build)
        x = inputs_of(model)
        traced, chained = swr.analyze(model, x), swr.chain(model)
        assert traced.scaled == chained.scaled
        assert torch.equal(traced.matrix(traced.scaled), chained.matrix(traced.scaled))
        assert torch.equal(traced.output_row, chained.output_row)


def test_a_chain_holds_before_modules_it_does_not_know():
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2), nn.LSTM(2, 2))
    plan = swr.chain(model)
    assert plan.held[:1] == ("0.weight",)
    assert set(plan.coupled) == {"2.weight", "4.weight"}
    assert "5.weight_ih_l0" in plan.held


def test_training_and_evaluation_mode_give_the_same_plan():
    model = make(cnn_bn)
    x = inputs_of(model)
    train, evaluate = swr.analyze(model.train(), x), swr.analyze(model.eval(), x)
    assert train.scaled == evaluate.scaled
    assert torch.equal(train.matrix(train.scaled), evaluate.matrix(train.scaled))


def test_keyword_inputs_and_dictionaries_are_traced():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, *, x, scale=1.0):
            return {"y": self.fc(x) * scale}

    model = Keywords()
    plan = swr.analyze(model, (), {"x": torch.randn(2, 3)})
    assert plan.free == ("fc.weight",)
    assert plan.verify(model, (), {"x": torch.randn(2, 3)}) < 1e-12


def test_keep_output_twice_is_once():
    plan = swr.chain(make(mlp)).keeping_output()
    assert plan.keeping_output() == plan
    assert not plan.output_row.any()
