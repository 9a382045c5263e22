"""Every test runs on one thread: two test processes share two cores."""

import signal
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts this process and those it starts, however the tests were started: `nohup … &` has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """Ctrl-C and the end of the terminal are ignored by this process and those it starts, as after `nohup … &`."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
