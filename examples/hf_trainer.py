"""Soft Weight Rescaling in the Trainer of transformers: a small GPT-2, from a configuration, without any download.

    pip install "transformers[torch]"
    python examples/hf_trainer.py

The model learns to continue arithmetic progressions, with and without SWR. Everything stays on this machine. The two lines
that make the difference are marked.
"""

from __future__ import annotations

import argparse
import logging
import tempfile

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from swr.integrations.transformers import SWRCallback


class Progressions(Dataset[dict[str, Tensor]]):
    """start, start + step, start + 2 step, … modulo 64, with steps from 1 to 4."""

    def __init__(self, count: int, length: int = 16) -> None:
        generator = torch.Generator().manual_seed(0)
        start = torch.randint(0, 64, (count, 1), generator=generator)
        step = torch.randint(1, 5, (count, 1), generator=generator)
        self.rows = (start + step * torch.arange(length)) % 64

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def train(folder: str, steps: int, coefficient: float | None) -> None:
    set_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=48, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]
    data = Progressions(2048)
    callbacks: list[TrainerCallback] = []
    if coefficient is not None:
        inputs = {"input_ids": data.rows[:1]}  # the first line: what the model is traced with
        callbacks.append(SWRCallback(kwargs=inputs, coefficient=coefficient))  # the second line
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        weight_decay=0.0,
        logging_steps=max(1, steps // 4),
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=callbacks)
    print(f"SWR with λ = {coefficient}" if coefficient else "without SWR", flush=True)
    trainer.train()
    for name in ("transformer.wte.weight", "transformer.h.0.attn.c_proj.weight", "transformer.h.1.mlp.c_proj.weight"):
        norm = float(model.get_parameter(name).detach().norm())
        logged = trainer.state.log_history[-2].get(f"swr/scaler/{name}")
        print(f"  {name:<36} norm {norm:6.2f}" + (f", last logged scaler {logged:.5f}" if logged else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps of each of two runs (default: 100)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        for coefficient in (None, 3e-2):
            train(folder, options.steps, coefficient)


if __name__ == "__main__":
    main()
