"""The batch script for Slurm."""

import shutil
import subprocess

import pytest

from swr.bench.running.slurm import script


@pytest.fixture(params=["warm-start", "it's a title; rm -rf /"])
def written(request, tmp_path):
    command = [
        "swr",
        "run",
        "warm-start",
        "--columns",
        "folder:my images-mlp",
        "--emit",
        "slurm",
        "--engine=local",
        "--seeds",
        "3",
    ]
    path = tmp_path / "job.sh"
    path.write_text(script(request.param, command))
    return path


def test_bash_can_read_it(written):
    subprocess.run(["bash", "-n", written], check=True)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing(written):
    found = subprocess.run(["shellcheck", written], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


def test_ray_starts_on_every_machine_and_the_command_joins_it(written, tmp_path):
    """With commands of the names that the script calls, which print their arguments."""
    (tmp_path / "bin").mkdir()
    bodies = {"scontrol": "echo node7; echo node8", "srun": 'printf "[%s]" "$RAY_AUTH_MODE" "$@"', "ray": "echo a token"}
    for name, body in bodies.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)
    places = {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "41", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "64"}
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    out = subprocess.run(["bash", written], env={**places, **paths}, capture_output=True, text=True, check=True).stdout
    ray = "[ray][symmetric-run][--address][node7:20041][--min-nodes][2][--num-cpus][64][--]"
    command = "[swr][run][warm-start][--columns][folder:my images-mlp][--seeds][3][--engine][ray][--address][node7:20041]"
    assert out == "[token][--nodes=2][--ntasks-per-node=1]" + ray + command
