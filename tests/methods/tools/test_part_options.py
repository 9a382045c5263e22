"""Whose option it is, of several methods at once."""

from typing import Any

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import OptionError
from swr.methods.tools.part_options import divided


def build(name: str, **hyper: Any) -> methods.Method:
    return methods.build(name, nn.Linear(2, 1), torch.ones(1, 2), **hyper)


def test_one_that_a_single_part_has_goes_to_it():
    method = build("max-norm+hare-tortoise", bound=2.0, every=7)
    assert method.parts["max-norm"].bound == 2.0
    assert method.parts["hare-tortoise"].every == 7


def test_one_that_several_have_is_written_with_the_name_of_the_part():
    method = build("l2+weight-decay", **{"l2.coefficient": 0.1, "weight-decay.coefficient": 0.2})
    assert [part.coefficient for part in method.parts.values()] == [0.1, 0.2]
    with pytest.raises(
        OptionError, match=r"coefficient is an option of l2 and of weight-decay: write l2.coefficient or weight-decay.coeff"
    ):
        build("l2+weight-decay", coefficient=0.1)


def test_what_no_part_has_is_refused_with_what_there_is():
    with pytest.raises(OptionError, match=r"no part has an option 'every'; those of the parts are l2 \(coefficient, seed\), "):
        build("l2+ema", coefficient=0.1, every=3)
    with pytest.raises(OptionError, match=r"l2\+ema has no part 'swr', named in 'swr.every': its parts are l2, ema"):
        build("l2+ema", **{"coefficient": 0.1, "swr.every": 3})
    with pytest.raises(OptionError, match=r"ema: got an unexpected keyword argument 'every'; its options are momentum, seed"):
        build("l2+ema", **{"coefficient": 0.1, "ema.every": 3})
    with pytest.raises(OptionError, match="l2: missing a required argument: 'coefficient'"):
        build("l2+ema")


def test_one_that_is_given_twice_is_refused():
    with pytest.raises(OptionError, match="given twice"):
        build("l2+ema", **{"coefficient": 0.1, "l2.coefficient": 0.2})


def test_an_option_goes_to_the_part_that_names_it_before_one_that_takes_any():
    kinds = {"swr": methods.SWR, "hare-tortoise": methods.HareTortoise, "l2": methods.L2}
    given = divided(kinds, {"momentum": 0.5, "keep_output": True, "swr.every": 2})
    assert given == {"swr": {"keep_output": True, "every": 2}, "hare-tortoise": {"momentum": 0.5}, "l2": {}}
