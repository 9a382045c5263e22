"""Runs as lines."""

import math
from dataclasses import replace

from swr.bench.report.charts.gallery import charts
from swr.bench.report.charts.series import curve, thinned
from swr.bench.report.results import Results


def test_what_is_not_finite_is_left_out(results):
    record = results.records[0]
    epochs = [replace(e, test_accuracy=math.nan) if e.epoch == 2 else e for e in results.epochs[record.id]]
    found = curve([epochs], lambda epoch: epoch.test_accuracy)
    assert 2 not in found.epochs
    assert len(found.epochs) == len(epochs) - 1
    assert charts(Results([replace(record, status="pending", last=None)], {record.id: []})) == []


def test_long_curves_are_thinned_but_keep_their_ends_and_the_ends_of_stages():
    found = thinned(range(1, 1001), 400, keep=[100, 101, 500])
    assert len(found) < 450
    assert {1, 100, 101, 500, 1000} <= set(found)
