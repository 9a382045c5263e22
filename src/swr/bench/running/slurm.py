"""A batch script for Slurm that starts Ray on every machine of the allocation and executes a command of `swr` there."""

import shlex
from collections.abc import Sequence

SCRIPT = """\
#!/bin/bash
# Submit with: sbatch FILE. Options of sbatch override the lines below: sbatch --nodes=8 --time=2-0 FILE
# Submitted again after its time was up, it goes on where it was.
#SBATCH --job-name={name}
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail

# Activate the environment that swr is installed in, for example:
# source "$HOME/venv/bin/activate"

# A token in your home folder, which the machines share, keeps other users of the cluster out.
export RAY_AUTH_MODE=token
ray get-auth-token --generate >/dev/null

export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
address="$head:$((20000 + SLURM_JOB_ID % 20000))"
srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \\
  ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus "$SLURM_CPUS_ON_NODE" -- \\
  {command} --engine ray --address "$address"
"""
OURS = ("--emit", "--engine", "--address")
"""options with a value that the script says itself"""


def script(title: str, command: Sequence[str]) -> str:
    """The script.

    >>> print(script("warm-start", ["swr", "run", "warm-start", "--emit", "slurm"]).splitlines()[-1])
      swr run warm-start --engine ray --address "$address"

    Args:
        title: Of what is run.
        command: The command line, as it was given.
    """
    kept, words = [], iter(command)
    for word in words:
        if word in OURS:
            next(words, None)
        elif word.partition("=")[0] not in OURS:
            kept.append(word)
    return SCRIPT.format(name=shlex.quote(f"swr-{title}"), command=shlex.join(kept))
