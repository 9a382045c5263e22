"""Settings of the processor and the system."""

import subprocess
import sys

import pytest
import torch

from swr.bench.training.process import in_large_pages


def test_large_pages_hold_the_same_numbers():
    tensor = torch.arange(3 * 2**20, dtype=torch.float32).view(3, -1)
    assert torch.equal(in_large_pages(tensor), tensor)


def test_memory_that_is_kept_is_not_cleared_again_at_every_step():
    """Counted as page faults, in a process of its own: what is told to the system stays told."""
    script = """if True:
        import resource, torch
        from swr.bench.training.process import keep_memory
        def faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(20):
                torch.ones(2**22), torch.ones(2**24)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        faults()
        before = faults()
        told = keep_memory()
        faults()
        print(int(told), before, faults())
    """
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    told, before, after = map(int, run.stdout.split())
    if not told:
        pytest.skip("this system's memory cannot be told to stay")
    assert after < before / 20
