"""Every test runs on one thread: two test processes share two cores."""

import torch

torch.set_num_threads(1)
