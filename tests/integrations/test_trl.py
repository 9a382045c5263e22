"""SFTTrainer of TRL with the callback of transformers: one rescale per step, the loop by hand, exact resume, norms kept."""

import os
from functools import cache

import pytest
import torch
from plain_loop import steps

import swr

os.environ.setdefault("HF_HUB_OFFLINE", "1")
trl = pytest.importorskip("trl", reason="trl is not installed; it is not in the dev extra because it needs 280 MB more")

from datasets import Dataset  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from swr.integrations.transformers import SWRCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator is found:UserWarning")  # advice on speed

SIZES = {"vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
INPUTS = {"input_ids": torch.zeros(1, 8, dtype=torch.long)}
PRETRAINED = {"growth": 1.0, "anchors": "initial"}  # no norm above the one it was loaded with


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=1, pad_token_id=0, bos_token_id=1, eos_token_id=1))


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", *map(str, range(29))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


@cache
def plan():
    return swr.analyze(model(), kwargs=INPUTS)


def trainer(folder, callbacks=(), **options):
    arguments = trl.SFTConfig(
        output_dir=str(folder),
        max_steps=6,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        **{"save_strategy": "no", "logging_strategy": "no", **options},
    )
    data = Dataset.from_dict({"text": [" ".join(str((s + i) % 29) for i in range(8)) for s in range(16)]})
    return trl.SFTTrainer(
        model=model(), args=arguments, train_dataset=data, processing_class=tokenizer(), callbacks=list(callbacks)
    )


def callback():
    return SWRCallback(plan=plan(), **PRETRAINED)


def same(model, other):
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_the_weights_equal_the_trainer_with_a_rescale_by_hand_and_no_norm_passes_the_pretrained_one(tmp_path):
    used = callback()
    runner = trainer(tmp_path / "a", [used])
    runner.train()
    hand = trainer(tmp_path / "b")
    rescaler = swr.SoftWeightRescaling(hand.model, plan=plan(), **PRETRAINED)
    step = hand.create_optimizer().step

    def stepped(*args, **options):
        step(*args, **options)
        rescaler.step()

    hand.optimizer.step = stepped
    hand.train()
    assert same(runner.model, hand.model)
    assert steps(used.rescaler) == steps(rescaler) == [runner.state.global_step] == [6]
    without = trainer(tmp_path / "c")
    without.train()
    start = dict(model().named_parameters())
    free = [name for name in plan().free if name in start]
    grown = [name for name in free if without.model.get_parameter(name).norm() > 1.001 * start[name].norm()]
    assert grown, "nothing grew"
    assert all(runner.model.get_parameter(name).norm() < 1.0001 * start[name].norm() for name in grown)


def test_resumed_from_a_checkpoint_equals_straight(tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 3}
    first, second = callback(), callback()
    straight = trainer(tmp_path, [first], **saving)
    straight.train()
    resumed = trainer(tmp_path, [second], **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert same(straight.model, resumed.model)
    assert first.rescaler.state_dict() == second.rescaler.state_dict()
