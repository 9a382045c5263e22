"""Every example runs as it stands, on a CPU, without the network, and shows what it says."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments, launcher=()):
    """The output of an example."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launcher, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def norms(line):
    return [float(n) for n in re.findall(r"\d+\.\d+", line)]


def test_lightning_logs_the_norms_and_they_grow_less():
    pytest.importorskip("lightning")
    output = run("lightning_loop.py", "--epochs", "4")
    without, with_swr = (norms(line) for line in output.splitlines() if "weight norms" in line)
    assert all(a > b for a, b in zip(without, with_swr, strict=True))
    assert re.search(r"swr/norm/net\.0\.weight = \d", output)
    assert re.search(r"swr/scaler/net\.0\.weight = 0\.99", output)


def test_accelerate_resumes_bit_identically_and_the_norms_grow_less():
    pytest.importorskip("accelerate")
    output = run("accelerate_loop.py", "--steps", "20")
    without, with_swr, resumed = (norms(line) for line in output.splitlines() if "weight norms" in line)
    assert sum(with_swr) < sum(without)
    assert resumed == with_swr
    assert "bit-identical" in output


def test_the_trainer_of_transformers_trains_a_gpt2_offline_and_the_norms_grow_less():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    output = run("hf_trainer.py", "--steps", "12")
    found = [float(norm) for norm in re.findall(r"norm +(\d+\.\d+)", output)]
    assert sum(found[3:]) < sum(found[:3])
    assert len(re.findall(r"last logged scaler \d\.\d", output)) == 3


def test_sfttrainer_tunes_a_llama_offline_and_the_norms_grow_less():
    pytest.importorskip("trl", reason="trl is not installed; it is not in the dev extra because it needs 280 MB more")
    pytest.importorskip("peft")
    output = run("sft_lora.py", "--steps", "6")
    full, full_swr, lora, lora_swr = (float(g) for g in re.findall(r"largest growth of a norm (\d+\.\d+)", output))
    assert full_swr < full
    assert lora_swr < lora
    assert "4 of 8 started above zero" in output
    assert "lora_B.default.weight" in output.partition("said once")[2]


def test_ppo_of_stable_baselines3_is_saved_and_continued_and_the_norms_are_balanced():
    pytest.importorskip("stable_baselines3")
    output = run("sb3_cartpole.py", "--steps", "2048")
    without, with_swr = (norms(line.partition("weight norms")[2]) for line in output.splitlines() if "weight norms" in line)
    assert max(without) / min(without) > 3 * max(with_swr) / min(with_swr)
    assert "saved, loaded and continued: 640 rescales" in output


def test_fsdp2_restores_bit_identically_and_one_rescale_is_one_collective():
    output = run(
        "fsdp2_torchrun.py", "--steps", "3", launcher=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    )
    assert "2 processes" in output
    assert "bit-identical" in output
    assert "collectives of one rescale: 1\n" in output


def test_fsdp2_without_torchrun_says_how_to_start_it(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", ["fsdp2_torchrun.py"])
    with pytest.raises(SystemExit, match=r"torchrun --nproc-per-node 2 .*fsdp2_torchrun\.py"):
        runpy.run_path(str(EXAMPLES / "fsdp2_torchrun.py"), run_name="__main__")


def test_dqn_on_cartpole_prints_returns_and_a_rescale_leaves_q_alone():
    pytest.importorskip("gymnasium")
    output = run("dqn_cartpole.py", "--steps", "1500", "--coefficient", "0.01")
    returns = [float(r) for r in re.findall(r"return +(\d+\.\d)", output)]
    assert len(returns) == 8
    assert min(returns) >= 8, "an episode of CartPole lasts at least eight steps"
    ((moved, change),) = re.findall(r"up to (\S+) of it, and Q by (\S+)", output)
    assert float(change) < 1e-5 < float(moved)
