"""Control with changing sensors."""

from dataclasses import replace

import pytest
import torch
from toy import stream_config

from swr.bench import experiments
from swr.bench.experiments.streams.changing_channels import SCALES, channels
from swr.errors import OptionError, SWRError


def test_a_task_permutes_flips_and_scales_the_channels():
    seen, signs = set(), set()
    for task in range(20):
        view = channels(3, task)
        state = torch.tensor([[0.5, -1.0, 0.1, 2.0]])
        kept = state.clone()
        for new, old in enumerate(view.order.tolist()):
            factor = float(view(state)[0, new] / state[0, old]) * SCALES[old]
            assert 1 / 3 <= abs(factor) <= 3
            signs.add(factor > 0)
        assert torch.equal(state, kept)
        assert view.order.sort().values.tolist() == [0, 1, 2, 3]
        seen.add((*view.order.tolist(), *view.factors.tolist()))
    assert len(seen) == 20
    assert signs == {True, False}
    assert torch.equal(channels(3, 7).factors, channels(3, 7).factors)
    assert not torch.equal(channels(3, 7).factors, channels(4, 7).factors)


def test_agents_and_their_stream_belong_together():
    with pytest.raises(OptionError, match="belong together"):
        experiments.expand("changing-channels", columns=["digits-mlp"])
    with pytest.raises(OptionError, match="belong together"):
        experiments.expand("permuted-pixels", columns=["cartpole-dqn"])
    with pytest.raises(SWRError, match="no column 'digits-dqn'"):
        experiments.expand("permuted-pixels", columns=["digits-dqn"])


def test_what_an_agent_cannot_have_is_refused():
    config = stream_config("changing-channels", column="cartpole-ppo", examples=2048)
    with pytest.raises(OptionError, match="at least 1,024 in a task, found 10"):
        replace(config, examples=10)
    with pytest.raises(OptionError, match="at least 1,024 in a task, found None"):
        replace(config, examples=None)
    with pytest.raises(OptionError, match="constant learning rate"):
        replace(config, lr_schedule="cosine")
    with pytest.raises(OptionError, match="no images"):
        replace(config, inputs="raw")
