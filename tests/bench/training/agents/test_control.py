"""Training an agent, task by task."""

import math
from dataclasses import replace

import pytest
import torch
from resuming import Stopped, rows, stop_at
from toy import stream_config

from swr.bench.data import load
from swr.bench.experiments.material import facts
from swr.bench.store.run_checks import Found, check_epochs
from swr.bench.training import run
from swr.bench.training.agents import ControlTraining
from swr.errors import OptionError

METHODS = {
    "vanilla": (),
    "full-reset": (),
    "l2-init": (("coefficient", 1e-2),),
    "shrink-perturb": (("coefficient", 0.4),),
    "redo": (("every", 20), ("threshold", 0.1)),
    "swr-budget": (("growth", 1.1),),
}


def short(agent: str, method: str = "vanilla", tasks: int = 3):
    hyper = METHODS[method]
    return stream_config(
        "changing-channels", tasks, column=f"cartpole-{agent}", method=method, hyper=hyper, examples=1024, batch_size=64
    )


@pytest.mark.parametrize("agent", ["dqn", "ppo"])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_stopped_after_every_task_is_the_undisturbed_one(agent, method, tmp_path):
    config = short(agent, method)
    whole = run(config, tmp_path / "whole.pt")
    for number in (1, 2):
        with pytest.raises(Stopped):
            run(config, tmp_path / "parts.pt", report=stop_at(number))
    assert rows(run(config, tmp_path / "parts.pt")) == rows(whole)
    found = [Found("run", epoch, "here") for epoch in whole]
    check_epochs("here", config, "done", found, {})
    if method != "vanilla":
        plain = run(short(agent), tmp_path / "vanilla.pt")
        acts_at_once = method in ("l2-init", "redo", "swr-budget")
        assert (rows(plain)[0] == rows(whole)[0]) != acts_at_once
        assert rows(plain)[1]["norms"] != rows(whole)[1]["norms"]


def test_only_the_networks_go_from_task_to_task():
    """A second task that begins with a first one's networks is that first task again, but for its channels."""
    later, first = (ControlTraining(short("dqn"), load("cartpole")) for _ in range(2))
    later.epoch()
    fresh = {name: learner.state_dict() for name, learner in first.learners.items()}
    for name, learner in later.learners.items():
        learner.load_state_dict(fresh[name])
    second = later.epoch()
    first.done = 1  # as if one had been trained: its number alone decides what the next one sees
    first._stages[0] = first._stages[1]
    assert rows([first.epoch()])[0]["norms"] == rows([second])[0]["norms"]


def test_a_method_is_told_of_every_task_but_the_first(monkeypatch):
    training = ControlTraining(replace(short("ppo"), epochs=(1, 2)), load("cartpole"))
    told = []
    for name, learner in training.learners.items():
        monkeypatch.setattr(learner.method, "new_task", lambda name=name: told.append((training.done, name)))
    epochs = [training.epoch() for _ in range(3)]
    assert told == [(1, "actor"), (1, "critic")]
    assert [epoch.stage for epoch in epochs] == [0, 1, 1]


def test_the_average_is_that_of_the_returns_at_the_end_of_every_task(tmp_path):
    epochs = run(short("ppo"), tmp_path / "run.pt")
    scores = [epoch.train_accuracy for epoch in epochs]
    assert epochs[-1].measures["average return / 500"] == pytest.approx(sum(scores) / 3)
    assert all(0 < epoch.train_accuracy < 1 and math.isnan(epoch.test_accuracy) for epoch in epochs)
    assert len({epoch.train_loss for epoch in epochs}) == 3
    assert set(epochs[0].norms) == {f"{part}.{i}.weight" for part in ("actor", "critic") for i in (1, 3, 5)}


def test_a_run_says_how_many_steps_it_saw():
    assert facts(short("ppo"), load("cartpole")) == {
        "dataset": "cartpole",
        "stages": [{"steps": 1024, "epochs": 1}] * 3,
    }


def test_another_device_is_refused():
    with pytest.raises(OptionError, match="on the CPU"):
        ControlTraining(short("dqn"), load("cartpole"), "meta")


def test_the_seed_decides_everything(tmp_path):
    config = short("dqn", tasks=2)
    torch.manual_seed(1)
    first = run(config, tmp_path / "a.pt")
    torch.manual_seed(2)
    assert rows(run(config, tmp_path / "b.pt")) == rows(first) != rows(run(replace(config, seed=1), tmp_path / "c.pt"))
