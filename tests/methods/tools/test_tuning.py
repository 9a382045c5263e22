"""What a fair comparison tries of each method."""

import inspect

import pytest

from swr import methods
from swr.methods.tools.tuning import MOST, along


@pytest.mark.parametrize("name", methods.names())
def test_a_method_has_at_most_five_different_configurations_of_options_that_it_has(name):
    tuning = methods.find(name).tuning
    assert 1 <= len(tuning) <= MOST
    assert len({tuple(sorted(one.items())) for one in tuning}) == len(tuning)
    for one in tuning:
        methods.check_options(name, one)


@pytest.mark.parametrize("name", methods.names())
def test_the_default_is_among_them_where_there_is_one(name):
    kind = methods.find(name)
    parameters = inspect.signature(kind).parameters
    for option in {option for one in kind.tuning for option in one}:
        default = parameters[option].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert default in {one.get(option, default) for one in kind.tuning}, option


def test_along_an_option_the_order_is_kept():
    assert along("bound", 2, 1) == ({"bound": 2}, {"bound": 1})
