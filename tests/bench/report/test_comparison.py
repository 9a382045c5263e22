"""Two methods, or two stores, seed by seed."""

import pytest
from stores import finished

from swr.bench import experiments
from swr.bench.report.comparison import ComparisonError, find_place, find_side, of_methods, of_stores, pairs
from swr.bench.report.overview import places
from swr.bench.report.results import load
from swr.bench.report.tables import tables

VALUES = {"vanilla": (0.5, 0.6, 0.7), "l2": (0.51, 0.59, 0.72), "swr": (0.6, 0.71, 0.8)}


def runs(seeds=3, **more):
    return experiments.expand("warm-start", columns=["mnist-mlp"], methods=[*VALUES], seeds=seeds, **more)


def place(path, shift=0.0, seeds=3, **more):
    finished(path, runs(seeds, **more), lambda c: VALUES[c.method][c.seed] + shift * (c.seed + 1))
    return find_place(load(path), "warm-start", "mnist-mlp", path)


def sides(one, *names):
    return (find_side(one, name) for name in names)


def test_two_methods_are_compared_seed_by_seed(tmp_path):
    one = place(tmp_path / "a")
    text = of_methods(one, *sides(one, "swr", "vanilla"))
    assert text.startswith("SWR minus vanilla: final test accuracy, warm-start on MNIST (MLP)\n\nseed")
    assert [line.split()[:4] for line in text.splitlines()[4:8]] == [
        ["0", "0.6000", "0.5000", "+0.1000"],
        ["1", "0.7100", "0.6000", "+0.1100"],
        ["2", "0.8000", "0.7000", "+0.1000"],
        ["mean", "0.7033", "0.6000", "+0.1033"],
    ]
    assert text.count("●") == 4
    assert " ".join(text.split()).endswith(
        "SWR minus vanilla is +0.1033, 95 % interval +0.0890 to +0.1177 (3 pairs of runs, p = 0.001): "
        "SWR is better, by more than chance."
    )
    assert max(map(len, text.splitlines())) < 80
    other = of_methods(one, *sides(one, "vanilla", "swr"))
    assert "vanilla minus SWR is -0.1033" in other
    assert " ".join(other.split()).endswith("SWR is better, by more than chance.")
    assert " ".join(of_methods(one, *sides(one, "L2", "vanilla")).split()).endswith("within noise.")


def test_one_seed_decides_nothing_and_equal_runs_are_called_equal(tmp_path):
    one = place(tmp_path / "a", seeds=1)
    assert "with one seed: its spread is not known" in " ".join(of_methods(one, *sides(one, "swr", "l2")).split())
    finished(tmp_path / "b", runs(2))
    same = find_place(load(tmp_path / "b"), "warm-start", "mnist-mlp", "b")
    assert of_methods(same, *sides(same, "swr", "l2")).endswith("SWR and L2 are equal in each of 2 seeds.")


def test_two_stores_are_compared_method_by_method(tmp_path):
    ours, other = place(tmp_path / "a", 0.01), place(tmp_path / "b", seeds=2)
    text = of_stores(ours, other, ("a", "b"))
    lines = text.splitlines()
    assert lines[0] == "a minus b: final test accuracy, warm-start on MNIST (MLP)"
    assert [line.split()[:2] for line in lines[4:7]] == [["vanilla", "+0.0150"], ["L2", "+0.0150"], ["SWR", "+0.0150"]]
    assert all(line.count("●") == 2 for line in lines[4:7]), "a mark for every seed that both have"
    assert "By more than chance: none." in text
    assert of_stores(ours, ours, ("a", "a")).endswith("The stores agree in every seed, to the last digit.")


def test_runs_of_another_protocol_are_not_compared(tmp_path):
    with pytest.raises(ComparisonError, match=r"ran warm-start on mnist-mlp differently \(as in the protocol; 10 \+ 10"):
        of_stores(place(tmp_path / "a"), place(tmp_path / "b", epochs_scale=0.1), ("a", "b"))


def test_what_is_not_there_is_said_with_what_is(tmp_path):
    one = place(tmp_path / "a")
    with pytest.raises(ComparisonError, match=r"there is no redo in warm-start on mnist-mlp: choose two of vanilla, l2, swr\."):
        find_side(one, "redo")
    with pytest.raises(ComparisonError, match=r"holds no runs of lr-decay on mnist-mlp: it has warm-start mnist-mlp\."):
        find_place(load(tmp_path / "a"), "lr-decay", "mnist-mlp", "a")


def test_a_method_with_several_rows_is_named_by_its_title(tmp_path):
    finished(tmp_path / "a", experiments.expand("proportionality", seeds=2))
    one = find_place(load(tmp_path / "a"), "proportionality", "cifar10-cnn", "a")
    with pytest.raises(ComparisonError, match="naive-scaling stands for several rows"):
        find_side(one, "naive-scaling")
    title = next(title for line, title in one.cells if line == "naive-scaling")
    assert find_side(one, title).title == title


def test_the_page_has_every_pair_once_with_every_seed(tmp_path):
    place(tmp_path / "a")
    results = load(tmp_path / "a")
    found = pairs(places(tables(results.records)))
    assert found["methods"] == ["vanilla", "L2", "SWR"]
    assert sorted(found["pairs"]) == ["0 1", "0 2", "1 2"]
    (one,) = found["pairs"]["0 2"]
    assert one["difference"] == -0.10333
    assert one["seeds"] == {"0": -0.1, "1": -0.11, "2": -0.1}
    assert (one["sign"], len(one["interval"])) == (-1, 2)
    assert found["places"] == [{"title": "Warm start", "column": "MNIST (MLP)", "lower": False}]
