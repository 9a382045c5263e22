"""The page is whole in itself and well-formed."""

import re
from html.parser import HTMLParser

import pytest
import torch.nn.functional as F
from torch import nn

import swr
from diagnostics.diagnosis.known import batches, fresh, make, silenced
from swr.diagnostics.diagnosis.webpage import _ticks


@pytest.fixture(scope="module")
def found():
    return swr.diagnose(silenced(fresh(77), 0, 29), batches(), F.cross_entropy, fresh=make, steps=100, seeds=3)


class Tags(HTMLParser):
    """Checks that elements are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing(found):
    html = found.to_html()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert not re.search(r"(src|href)=|@import|https?://|<script", html)
    assert sum(tag == "path" for tag, _ in tags.seen) == 4
    assert "prefers-color-scheme: dark" in html


def test_the_answer_stands_first_and_numbers_are_numbers(found):
    html = found.to_html()
    body = html[html.index("<body") :]
    assert body.index(found.sentence[1:40]) < body.index("<svg") < body.index("<table")
    assert not re.search(r'="[^"]*\b(nan|inf)\b', body)


def test_names_are_escaped():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<b>", nn.Linear(12, 4))

        def forward(self, x):
            return self.get_submodule("<b>")(x)

    html = swr.diagnose(Odd(), batches(), F.cross_entropy, fresh=Odd, steps=20, seeds=2, locate=False).to_html()
    assert "<td><b></td>" not in html
    assert "<td>&lt;b&gt;</td>" in html


def test_ticks_are_round_and_inside():
    assert _ticks(0, 2.7) == [0, 1, 2]
    assert _ticks(0, 500) == [0, 100, 200, 300, 400, 500]
