"""The whole diagnosis on small networks of which the truth is known."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import swr
from diagnostics.diagnosis.known import batches, fingerprint, fresh, make, silenced, trained
from swr.errors import InputsError, ModelError, OptionError

QUICK = {"steps": 150, "seeds": 3, "lr": 3e-3}


def ask(model, given=None, loss_fn=F.cross_entropy, **options):
    return swr.diagnose(model, given or batches(), loss_fn, **{"fresh": make, **QUICK, **options})


def test_a_fresh_network_has_lost_none():
    found = ask(fresh(77))
    assert (found.verdict, found.targets) == ("none", "given")
    assert "it has lost no plasticity" in found.sentence
    assert [one.what for one in found.advice] == ["nothing"]
    assert all(layer.recovers is None for layer in found.layers)


def test_silenced_units_are_found_in_their_layer():
    found = ask(silenced(fresh(77), 0, 29))
    assert found.verdict in ("some", "lost")
    best = max(found.layers, key=lambda layer: layer.recovers)
    assert best.name == "0"
    assert best.recovers > 0.8
    assert best.units.silent > 0.8
    assert "re-initialising layer 0 alone closes" in found.sentence
    assert "of the units of layer 0 are silent" in found.sentence
    assert found.advice[0].what == "reset of layer 0"


def test_batches_that_the_network_knows_are_shuffled_unless_told_otherwise():
    known = trained(fresh(77), batches())
    found = ask(known, locate=False)
    assert found.targets == "relabelled"
    assert "relabelled classes" in found.sentence
    assert any("already does better" in note for note in found.notes)
    given = ask(known, targets="given")
    assert (given.targets, given.verdict) == ("given", "none")
    assert "ahead of a fresh one" in given.sentence or "level with" in given.sentence
    assert any("head start" in note for note in given.notes)


def test_the_model_the_batches_and_the_random_state_are_left_as_they_were():
    model = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    build = lambda: copy.deepcopy(model).apply(lambda m: m.reset_parameters() if hasattr(m, "reset_parameters") else None)  # noqa: E731
    model(batches()[0][0]).sum().backward()
    model[1].eval()
    given = batches()
    before, kept = fingerprint(model), copy.deepcopy(given)
    torch.manual_seed(3)
    before = fingerprint(model)
    ask(model, given, fresh=build, targets="shuffled", steps=60)
    assert fingerprint(model) == before
    assert all(torch.equal(a, b) and torch.equal(x, y) for (a, x), (b, y) in zip(given, kept, strict=True))


def test_a_factory_that_hands_out_the_trained_network_itself_does_not_get_it_trained():
    model = fresh(0)
    before = fingerprint(model)
    found = ask(model, fresh=lambda: model, steps=40)
    assert fingerprint(model) == before
    assert any("same network each time" in note for note in found.notes)


def test_the_same_call_gives_the_same_answer_and_other_random_states_do_not_matter():
    one = ask(fresh(7), steps=40)
    torch.manual_seed(123)
    assert ask(fresh(7), steps=40) == one


def test_any_loss_and_any_targets_can_be_used():
    given = [(x, x[:, :4] * 2) for x, _ in batches()]
    found = ask(fresh(7), given, F.mse_loss, targets="shuffled")
    assert found.verdict == "none"
    assert "in loss" in found.sentence
    assert found.unit == ""


def test_progress_counts_every_step_to_the_end():
    seen = []
    ask(silenced(fresh(77), 0, 29), progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[0][1] == 2 * 3 * 150
    assert seen[-1] == (len(seen), len(seen))
    assert len(seen) == (2 + 3 + 1) * 3 * 150  # both, each of the three layers, shrink and perturb


def test_frozen_layers_are_noted_and_lose_plasticity():
    model = fresh(77).requires_grad_(False)
    model[4].requires_grad_(True)
    found = ask(model, lr=(1e-3, 3e-3))
    assert found.verdict in ("some", "lost")
    assert any("4 of the trained network's parameter tensors are frozen" in note for note in found.notes)


def test_a_task_that_fresh_networks_do_not_learn_either_is_unclear():
    found = ask(fresh(7), lr=1e-9, steps=40)
    assert found.verdict == "unclear"
    assert "fresh networks did not learn this task either" in found.sentence


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"seeds": 1}, OptionError, "seeds must be a whole number, at least 2"),
        ({"steps": 5}, OptionError, "steps must be a whole number, at least 20"),
        ({"lr": 0}, OptionError, "lr must be a number above 0"),
        ({"lr": ()}, OptionError, "lr is empty"),
        ({"targets": "new"}, OptionError, "targets must be 'auto' or 'given' or 'relabelled' or 'shuffled'"),
        ({"fresh": lambda: nn.Linear(12, 4)}, ModelError, "another architecture than the model's: 0.weight has"),
        ({"fresh": lambda: 3}, ModelError, "must make a torch.nn.Module, found int"),
        ({"given": [(torch.zeros(3, 5), torch.zeros(3))]}, InputsError, "the loss of the first batch could not be computed"),
        ({"loss_fn": lambda a, b: a}, InputsError, "must return one number"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(options, error, sentence):
    model = fresh(0)
    before = fingerprint(model)
    with pytest.raises(error, match=sentence):
        ask(model, **options)
    assert fingerprint(model) == before


def test_a_model_that_cannot_learn_is_refused():
    with pytest.raises(ModelError, match="no parameter that requires a gradient"):
        ask(fresh(0).requires_grad_(False))


def test_an_operator_without_second_derivative_only_costs_the_curvature():
    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, grad):
            return grad.clone()

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("derivative for slope is not implemented")

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return Slope.apply(grad)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(12, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.b(torch.relu(Once.apply(self.a(x))))

    found = ask(Net(), fresh=Net, steps=40, locate=False)
    assert found.curvature is None
    assert found.notes == ("the curvature could not be computed: derivative for slope is not implemented",)
