"""The answer as a sentence, as a table of 80 columns, and as JSON."""

import json
import math

import torch.nn.functional as F
from torch import nn

import swr
from diagnostics.diagnosis.known import batches, fresh, make, silenced
from swr.diagnostics.diagnosis.record import measured, points, sentence
from swr.diagnostics.diagnosis.trial import Curve
from swr.diagnostics.diagnosis.verdict import compare


def test_the_text_fits_80_columns_and_starts_with_the_answer():
    found = swr.diagnose(silenced(fresh(77), 0, 29), batches(), F.cross_entropy, fresh=make, steps=100, seeds=3)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("after 100 steps on the given batches the trained network is ")
    assert any(line.split() == [*found.layer_rows()[0][:7], "if", "reset"] for line in lines)
    assert "What to try:" in str(found)


def test_long_names_of_layers_are_cut_to_80_columns():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.a_rather_long_name_of_a_module_that_goes_on_and_on_and_on = make()

        def forward(self, x):
            return self.a_rather_long_name_of_a_module_that_goes_on_and_on_and_on(x)

    found = swr.diagnose(Deep(), batches(), F.cross_entropy, fresh=Deep, steps=20, seeds=2, locate=False)
    assert max(map(len, str(found).splitlines())) <= 80
    assert "…" in str(found)


def test_json_holds_everything_and_no_number_that_json_does_not_have():
    found = swr.diagnose(fresh(7), batches(), F.cross_entropy, fresh=make, steps=20, seeds=2)
    plain = json.loads(found.to_json(), parse_constant=lambda name: 1 / 0)
    assert plain["verdict"] == found.verdict
    assert plain["sentence"] == found.sentence
    assert len(plain["comparison"]["trained"]) == 2
    assert len(plain["comparison"]["trained"][0]["losses"]) == 20
    assert [layer["name"] for layer in plain["layers"]] == ["0", "2", "4"]


def test_a_diverged_network_is_said_to_have_diverged():
    broken = [Curve((2.0,) * 10 + (math.nan,) * 10, {})] * 2
    good = [Curve(tuple(2 - i / 10 for i in range(20)), {})] * 2
    found = compare({1.0: broken}, {1.0: good})
    assert "has diverged at every learning rate" in sentence(found, [], 20, "given", True)


def test_points_are_means_over_stretches_and_pairs():
    found = points([Curve(tuple(float(i) for i in range(100)), {}), Curve(tuple(float(i + 2) for i in range(100)), {})])
    assert len(found) == 50
    assert (found[0].step, found[0].mean) == (2, 1.5)
    assert found[0].low < 1.5 < found[0].high


def test_a_mean_shows_the_digits_that_its_interval_leaves():
    assert measured(0.3141, 0.2) == "0.31 ± 0.20"
    assert measured(0.00123, 0.0004) == "0.0012 ± 0.0004"
