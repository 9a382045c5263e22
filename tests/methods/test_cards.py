"""The cards: what a docstring says of a method, and that nothing else is taken for it."""

import inspect
import re

import pytest

from swr import methods
from swr.methods import cards

MAKERS = {name: methods.find(name) for name in methods.names()} | cards.TRANSFORMS
GIVEN = {"model", "example_inputs", "seed"}
"""what every method has, and cards need not say"""


def test_a_sentence_with_a_colon_is_no_argument():
    text = (
        "One sentence.\n\n    θ <- 0: at once\n\nWith Adam this is AdamW, exactly: torch decays first.\n\n"
        "Where it acts: everywhere.\n\nWhen:\n    At a step: after it.\n\nArgs:\n    rate: ρ, one of two: 0 or\n"
        "        more: 1.\n    low, high: the ends.\n\nReferences:\n    A. Author: a title."
    )
    assert cards.arguments(text) == {"rate": "ρ, one of two: 0 or more: 1.", "low, high": "the ends."}
    assert list(cards.sections(text)) == ["When", "Args", "References"]
    page = cards._markdown(text).splitlines()
    assert "With Adam this is AdamW, exactly: torch decays first." in page
    assert "Where it acts: everywhere." in page
    assert [line for line in page if line.startswith("- ")] == [
        "- **When:** At a step: after it.",
        "- **References:** A. Author: a title.",
        "- **rate:** ρ, one of two: 0 or more: 1.",
        "- **low, high:** the ends.",
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_the_arguments_of_a_card_are_those_of_the_method_and_none_is_missing(name: str):
    maker = MAKERS[name]
    known = set(inspect.signature(maker).parameters)
    told = {word for names in cards.arguments(inspect.getdoc(maker) or "") for word in names.split(", ")}
    assert told <= known
    if name != "swr-reinit":  # has those of swr
        assert known - told <= GIVEN


@pytest.mark.parametrize("name", MAKERS)
def test_every_paragraph_of_a_docstring_is_one_on_the_page(name: str):
    text = inspect.getdoc(MAKERS[name]) or ""
    page = cards._markdown(text)
    paragraphs = [b for b in text.split("\n\n") if not cards.sections(b) and not b.startswith((" ", ">>>"))]
    lines = page.splitlines()
    for paragraph in paragraphs:
        assert cards._line(paragraph) in lines
    entries = [re.match(r"- \*\*(.+?):\*\*", line) for line in lines if line.startswith("- ")]
    expected = [s for s in cards.sections(text) if s != "Args"] + list(cards.arguments(text))
    assert [entry.group(1) for entry in entries if entry] == expected


@pytest.mark.parametrize("name", MAKERS)
def test_a_header_is_never_left_in_the_text(name: str):
    text = inspect.getdoc(MAKERS[name]) or ""
    assert not re.search(r"^(Source|Note|Notes|Example|Arguments|Parameters|Reference|Return|Yields):", text, re.MULTILINE)
    for header in cards.SECTIONS:
        assert len(re.findall(rf"^{header}:$", text, re.MULTILINE)) == (header in cards.sections(text))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("l2", "λ here is 2 λ there"),
        ("l2-init", "λ here is 2 λ there"),
        ("head-reset", "the saved initial head"),
        ("continual-backprop", "a replaced unit of the next layer"),
        ("wasserstein", "takes the mean"),
        ("self-normalized-resets", "falls to the smallest threshold"),
    ],
)
def test_a_card_says_what_differs_from_the_authors_code(name: str, said: str):
    assert said in " ".join(cards.sections(inspect.getdoc(methods.find(name)) or "")["Differences"].split())
