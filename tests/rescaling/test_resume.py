"""Train 50 steps, save, load in a fresh process, train 50 more: bit-identical to 100 straight, for every option."""

import os
import subprocess
import sys
from pathlib import Path

import torch

import swr
from nets import cnn_bn, inputs_of, make, mlp, train

OPTIONS = [
    {},
    {"growth": 1.05},
    {"growth": 1.05, "anchors": "initial", "every": 3},
    {"growth": 1.02, "anchors": "current", "keep_output": True},
    {"growth": 1.0, "anchors": {"*": 2.0}},
    {"coefficient": 1e-3},
    {"coefficient": 1e-2, "anchors": "balanced"},
    {"coefficient": {"0.*": 1e-1, "*": 1e-3}},
    {"coefficient": 1e-3, "every": 3},
    {"coefficient": 1e-3, "on_lr_decay": "rebase"},
    {"coefficient": 1e-3, "on_lr_decay": "follow"},
    {"coefficient": 1e-3, "on_lr_decay": "follow-squared"},
    {"coefficient": 1e-3, "keep_output": True},
    {"coefficient": 1e-3, "inhomogeneous": "pass"},
    {"coefficient": 0.1, "every": 4, "on_lr_decay": "follow", "keep_output": True},
]
BUILDS = {"mlp": mlp, "cnn_bn": cnn_bn}


def set_up(build, dtype, options):
    model = make(BUILDS[build], dtype=getattr(torch, dtype))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 70], gamma=0.1)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), **options)
    rescaler.attach(optimizer)
    return {"model": model, "optimizer": optimizer, "schedule": schedule, "rescaler": rescaler}


def advance(parts, steps, seed):
    torch.manual_seed(seed)
    train(parts["model"], parts["optimizer"], steps, after=parts["schedule"].step)


def second_half(path, build, dtype, options):
    torch.set_num_threads(1)
    parts = set_up(build, dtype, options)
    for name, state in torch.load(path, weights_only=True).items():
        parts[name].load_state_dict(state)
    advance(parts, 50, seed=2)
    torch.save({name: part.state_dict() for name, part in parts.items()}, path)


def flat(tree):
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree, key=str) for leaf in flat(tree[key])]
    return [leaf for branch in tree for leaf in flat(branch)] if isinstance(tree, (list, tuple)) else [tree]


CASES = [case for options in OPTIONS for case in (("cnn_bn", "float32", options), ("mlp", "bfloat16", options))]


def test_resumed_in_a_fresh_process_equals_straight_for_every_option(tmp_path):
    paths = [tmp_path / f"{i}.pt" for i in range(len(CASES))]
    straight = []
    for path, case in zip(paths, CASES, strict=True):
        parts = set_up(*case)
        advance(parts, 50, seed=1)
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)
        advance(parts, 50, seed=2)
        straight.append({name: part.state_dict() for name, part in parts.items()})

    call = "import sys, test_resume as t; [t.second_half(path, *case) for path, case in zip(sys.argv[1:], t.CASES)]"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", call, *map(str, paths)], cwd=Path(__file__).parent, check=True, env=environment)

    for path, case, expected in zip(paths, CASES, straight, strict=True):
        resumed = torch.load(path, weights_only=True)
        assert resumed["rescaler"]["optimizers"][0]["steps"] == 100
        for name, state in expected.items():
            for mine, theirs in zip(flat(state), flat(resumed[name]), strict=True):
                same = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
                assert same, f"{case}: {name}"
