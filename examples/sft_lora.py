"""Soft Weight Rescaling in SFTTrainer of TRL: full fine-tuning and LoRA of a small Llama, without any download.

    pip install trl peft
    python examples/sft_lora.py

The model comes from a configuration, the tokenizer is made here. In full fine-tuning the norms are pulled back to those that
the model was loaded with: ``growth=1.0, anchors="initial"``. Weights that the function couples come as near as it allows. With
LoRA only the adapters are scaled, A against B, and B starts at zero: a warning says that it has no norm to return to.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset, disable_progress_bars
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

from swr.integrations.transformers import SWRCallback

WORDS = ["<pad>", "<eos>", "<unk>", *map(str, range(61))]


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each number."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)  # type: ignore[no-untyped-call]


def train(folder: str, steps: int, *, lora: bool, rescaled: bool) -> None:
    set_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = LlamaConfig(vocab_size=64, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=1, **sizes)
    model = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    rows = [" ".join(str((start + step * i) % 61) for i in range(12)) for start in range(61) for step in (1, 2, 3)]
    inputs = {"input_ids": torch.zeros(1, 12, dtype=torch.long)}
    callback = SWRCallback(kwargs=inputs, growth=1.0, anchors="initial")  # the line to add
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            learning_rate=1e-2,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"text": rows}),
        processing_class=tokenizer(),
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if lora else None,
        callbacks=[callback] if rescaled else [],
    )
    trained = {name: p for name, p in trainer.model.named_parameters() if p.requires_grad and p.ndim == 2}
    before = {name: float(p.detach().norm()) for name, p in trained.items()}
    loss = trainer.train().training_loss
    growth = {name: float(p.detach().norm()) / before[name] for name, p in trained.items() if before[name] > 0}
    print(f"{'LoRA' if lora else 'full'}, {'with SWR   ' if rescaled else 'without SWR'}: loss {loss:.3f}, ", end="")
    print(
        f"largest growth of a norm {max(growth.values()):.3f}, {len(growth)} of {len(trained)} started above zero", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps of each of four runs (default: 60)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for lora in (False, True):
            for rescaled in (False, True):
                train(folder, options.steps, lora=lora, rescaled=rescaled)
    for each in said:
        if "lora_B" in str(each.message):
            print(f"said once: {each.message}")


if __name__ == "__main__":
    main()
