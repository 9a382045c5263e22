"""`swr methods`, the page that is made of the same cards, and methods from a user's own file."""

from pathlib import Path

import pytest

from swr import methods
from swr.bench.cli.method_cards import card
from swr.bench.experiments import RunConfig
from swr.errors import OptionError
from swr.methods import cards

ROOT = Path(__file__).parents[3]


def test_every_method_has_a_line(swr, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = swr("methods")
    assert code == 0
    assert out.splitlines()[0].split("  ")[-1].strip() == "what it does"
    assert [line.split()[0] for line in out.splitlines()[2:] if not line.startswith(" ")] == list(methods.names())
    assert max(map(len, out.splitlines())) <= 80
    together = " ".join(out.split())
    words = " ".join(" ".join(line[36:] for line in out.splitlines()[2:]).split())
    for name in methods.names():
        title = methods.find(name).title
        assert title in together or title.lower().replace(" ", "-") == name
        assert cards.sentence(name) in words


@pytest.mark.parametrize("name", methods.names())
def test_a_card_fits_80_columns_and_loses_nothing(name):
    text = card(name)
    assert [line for line in text.splitlines() if len(line) > 80 and line[:3] not in (">>>", "...")] == []
    assert text.split() == cards.card(name).split()


def test_every_method_says_when_it_acts():
    assert {name for name in methods.names() if not cards.moments(name)} == {"vanilla"}
    assert cards.moments("shrink-perturb") == "task"
    assert cards.moments("wasserstein") == "loss"


def test_a_name_prints_its_card(swr):
    code, out, _ = swr("methods redo")
    assert code == 0
    assert out.startswith("redo: ReDo\n")
    assert "dormant: s_i <= τ" in out
    assert "threshold: τ" in out


def test_several_methods_at_once_print_the_card_of_each(swr):
    code, out, _ = swr("methods ema+l2")
    assert code == 0
    assert out.startswith("ema+l2: EMA + L2\n\nAfter a step they act in this order: l2, ema.\n")
    assert out.index("ema: EMA\n") < out.index("l2: L2\n")
    assert cards.moments("ema+l2") == "loss, step"
    code, _, err = swr("methods ema+hare-tortoise")
    assert code == 2
    assert "both decide which copy of the weights is evaluated" in err


def test_a_name_that_is_none_is_corrected(swr):
    code, out, err = swr("methods redoo")
    assert (code, out) == (2, "")
    assert "did you mean redo?" in err


def test_the_page_of_the_methods_is_up_to_date():
    assert (ROOT / "docs/methods.md").read_text() == cards.page(), "python -m swr.methods.cards > docs/methods.md"


def test_the_page_has_every_card_and_closes_its_fences():
    text = cards.page()
    for name in (*methods.names(), *cards.TRANSFORMS):
        assert f"\n## {name}\n" in text
    assert text.count("```") % 2 == 0
    assert "``" not in text.replace("```", "")
    assert not [line for line in text.splitlines() if line.startswith(">>>") and ":class:" in line]


def test_a_method_of_ones_own_is_found_by_module_and_class(own, swr, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert methods.find("ownmethods:Nothing").title == "nothing"
    config = RunConfig("generalization", "digits-mlp", "ownmethods:Nothing")
    assert (config.title, config.label) == ("nothing", "generalization digits-mlp ownmethods:Nothing seed 0")
    code, out, _ = swr("methods ownmethods:Nothing")
    assert (code, out) == (0, "ownmethods:Nothing: nothing\n\nDo nothing, slowly.\n")
    code, out, _ = swr("run generalization --columns digits-mlp --methods ownmethods:Nothing --seeds 1 --dry-run")
    assert code == 0
    assert "digits-mlp ownmethods:Nothing seed 0" in out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ownmethods:Other", "ownmethods has no method 'Other'"),
        ("ownmethods:number", "has no method 'number'"),
        ("nosuchmodule:Nothing", "cannot be imported"),
        (":Nothing", "cannot be imported"),
    ],
)
def test_what_is_no_method_is_refused(own, name, message):
    with pytest.raises(OptionError, match=message):
        methods.find(name)


def test_no_run_of_what_is_no_method_is_begun(own, swr):
    code, out, err = swr("run generalization --columns digits-mlp --methods ownmethods:Other --seeds 1 --dry-run")
    assert (code, out) == (2, "")
    assert "ownmethods has no method 'Other'" in err
