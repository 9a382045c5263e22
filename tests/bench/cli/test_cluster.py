"""Options of `run` and `sweep` that choose where runs are executed."""

import subprocess

import pytest

from swr.bench.cli import cluster, options
from swr.errors import OptionError

RUN = "run quickstart --seeds 1 --epochs-scale 0.02 --methods vanilla"


@pytest.mark.parametrize(
    "flags",
    ["--address auto", "--cpus-per-run 2", "--gpus-per-run 1", "--checkpoints shared", "--runtime-env e.yaml", "--ray-logs"],
)
def test_options_of_ray_are_refused_without_it(swr, flags):
    code, _, err = swr(f"{RUN} {flags}")
    assert code == 2
    assert f"swr: {flags.split()[0]} is for runs on Ray: add --engine ray, or leave it out." in err


@pytest.mark.parametrize(
    ("name", "gpus", "sentence"),
    [
        ("cuda:1", None, "but Ray chooses them: use --device cuda"),
        ("cpu", 0.5, "asks for GPUs that --device cpu does not use"),
    ],
)
def test_devices_that_contradict_the_request_are_one_sentence(name, gpus, sentence):
    with pytest.raises(OptionError, match=sentence):
        cluster.device(options.Cluster(engine="ray", gpus_per_run=gpus), name)


def test_a_gpu_of_the_cluster_need_not_be_one_of_this_machine():
    assert cluster.device(options.Cluster(engine="ray", gpus_per_run=0.5), "auto") == "cuda"
    assert cluster.device(options.Cluster(engine="ray"), "cpu") == "cpu"


def test_a_missing_ray_is_one_sentence(swr, monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    code, _, err = swr(f"{RUN} --engine ray")
    assert code == 1
    assert "swr: --engine ray needs Ray, which is not installed: pip install 'soft-weight-rescaling[ray]'." in err


@pytest.mark.parametrize(("text", "sentence"), [("- a list", "must hold a mapping"), ("{", "cannot be read")])
def test_a_wrong_runtime_environment_is_one_sentence(folder, text, sentence):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")
    (folder / "env.yaml").write_text(text)
    with pytest.raises(OptionError, match=sentence):
        cluster.engine(options.Cluster(engine="ray", runtime_env=folder / "env.yaml"), 1, None, "cpu")


@pytest.mark.parametrize("line", [RUN, "sweep warm-start --column digits-mlp --method swr --seeds 1"])
def test_emit_prints_a_batch_script_and_runs_nothing(swr, folder, line):
    code, out, _ = swr(f"{line} --emit slurm --gpus-per-run 1")
    assert code == 0
    assert out.startswith("#!/bin/bash\n")
    assert f"  swr {line} --gpus-per-run 1 --engine ray --address " in out
    assert not (folder / "swr.sqlite").exists()
    assert subprocess.run(["bash", "-n"], input=out, text=True).returncode == 0


def test_a_store_on_a_network_disk_is_said(swr, monkeypatch):
    monkeypatch.setattr(cluster, "network_file_system", lambda folder: "nfs4")
    code, _, err = swr(f"{RUN} --workers 1")
    assert code == 0
    assert "swr.sqlite is on a network file system (nfs4)" in err
