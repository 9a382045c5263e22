"""The command `compare`."""

import pytest
from stores import finished

from swr.bench import experiments

WHERE = "--experiment warm-start --column mnist-mlp"


@pytest.fixture
def store(folder):
    runs = experiments.expand("warm-start", columns=["mnist-mlp"], methods=["vanilla", "l2", "swr"], seeds=2)
    for name, shift in (("swr.sqlite", 0.0), ("other.sqlite", 0.01)):
        finished(name, runs, lambda c, shift=shift: 0.5 + 0.1 * c.seed + 0.02 * (c.method == "swr") * (1 + c.seed) + shift)
    return folder


def test_help_teaches_with_examples(swr):
    code, out, _ = swr("compare --help")
    assert code == 0
    assert "Examples:\n  swr compare swr l2 --experiment" in out
    assert "compare" in swr("--help")[1]


@pytest.mark.usefixtures("store")
def test_two_methods_of_a_store(swr):
    code, out, err = swr(f"compare swr l2 {WHERE}")
    assert (code, err) == (0, "")
    assert out.startswith("SWR minus L2: final test accuracy")
    assert "+0.0300" in out
    assert swr(f"compare swr l2 {WHERE} --store other.sqlite")[1].count("+0.0300") == out.count("+0.0300")


@pytest.mark.usefixtures("store")
def test_two_stores(swr):
    code, out, err = swr(f"compare other.sqlite swr.sqlite {WHERE}")
    assert (code, err) == (0, "")
    assert out.startswith("other.sqlite minus swr.sqlite: final test accuracy")
    assert [line.split()[:2] for line in out.splitlines()[4:7]] == [[name, "+0.0100"] for name in ("vanilla", "L2", "SWR")]


def test_a_file_with_the_name_of_a_method_does_not_hide_it(swr, store):
    (store / "l2").write_text("notes")
    assert swr(f"compare swr l2 {WHERE}")[0] == 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"compare swr swr {WHERE}", "swr is compared with itself: name two methods, or two stores"),
        (f"compare swr other.sqlite {WHERE}", "are a method and a store: name two methods, or two stores"),
        (f"compare swr redo {WHERE}", "there is no redo in warm-start on mnist-mlp: choose two of vanilla, l2, swr"),
        (f"compare swr l2 {WHERE} --store nowhere.sqlite", "there is no store at nowhere.sqlite"),
        (f"compare swr.sqlite nowhere.sqlite {WHERE}", "there is no store at nowhere.sqlite"),
        (
            "compare swr l2 --experiment lr-decay --column mnist-mlp",
            "holds no runs of lr-decay on mnist-mlp: it has",
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(swr, line, sentence):
    code, out, err = swr(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
