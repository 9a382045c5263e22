"""The figure on proportionality."""

import numpy as np
import pytest

from swr import methods
from swr.bench.report.charts.gallery import charts


@pytest.fixture(scope="module")
def drawn(results):
    return {chart.id: chart for chart in charts(results)}


def rows(chart, name="rows"):
    return chart.spec()["datasets"][name]


def test_proportionality_shows_both_moments_by_ratio(results, drawn):
    chart = next(chart for name, chart in drawn.items() if name.startswith("proportionality"))
    found = {(r["line"], r["ratio"], r["moment"]): r for r in rows(chart)}
    naive = methods.find("naive-scaling").title
    assert found[naive, 0.5, "right after scaling"]["mean"] == pytest.approx(0.3)
    runs = [r for r in results.records if r.config.method == "naive-scaling" and dict(r.config.hyper)["ratio"] == 0.5]
    best = [max(e.test_accuracy for e in results.epochs[r.id] if e.stage == 1) for r in runs]
    assert found[naive, 0.5, "best in further training"]["mean"] == pytest.approx(np.mean(best), rel=1e-4)
    assert [row["line"] for row in rows(chart, "unscaled")] == ["vanilla"]
