"""Importing the diagnostics imports no extra."""

import subprocess
import sys


def test_diagnostics_need_torch_alone():
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import swr.diagnostics\n"
        "extras = {'numpy', 'scipy', 'sklearn', 'tensorboard', 'torch.utils.tensorboard', 'swr.bench'}\n"
        "assert not extras & (set(sys.modules) - before), extras & (set(sys.modules) - before)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
