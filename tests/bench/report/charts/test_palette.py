"""One style per method."""

from itertools import combinations

import numpy as np
import pytest

from swr import methods
from swr.bench.report.charts import palette

SIGHT = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


CONES = [[0.41222147, 0.53633254, 0.05144599], [0.21190350, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.62997870]]


OKLAB = [[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371], [0.02590404, 0.78277177, -0.80867577]]


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def seen(colour, sight):
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ np.clip(np.array(SIGHT[sight]) @ linear(colour), 0, 1))


def contrast(one, other):
    low, high = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_any_two_of_the_papers_methods_look_different_to_everyone(page, sight):
    colours = [getattr(style, page) for name, style in palette.FIXED.items() if name != "cold"]
    distances = [np.linalg.norm(seen(one, sight) - seen(other, sight)) for one, other in combinations(colours, 2)]
    assert min(distances) > 0.09


@pytest.mark.parametrize("name", [*palette.FIXED, *methods.names()])
def test_every_colour_stands_out_from_its_page(name):
    style = palette.style(name)
    assert contrast(style.light, palette.LIGHT) > 2.95
    assert contrast(style.dark, palette.DARK) > 2.95
    assert palette.darker()[style.light] == style.dark


def test_every_method_has_a_style_of_its_own():
    styles = [palette.style(name) for name in ("cold", *methods.names())]
    assert len({(style.light, style.dash) for style in styles}) == len(styles)
    assert palette.style("never heard of") == palette.style("never heard of")
