"""Plans as data: description, JSON, mode and tied names."""

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


def test_a_named_tuple_is_one_input():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, packed):
            return self.layer(packed.data)

    packed = nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    assert swr.analyze(Reader(), packed).free == ("layer.weight",)
