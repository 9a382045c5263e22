"""PEFT: the adapters alone are pulled, the base model stays, a zero LoRA-B is explained; with the Trainer of transformers."""

import os
from functools import cache

import pytest
import torch
from plain_loop import COEFFICIENT, adam, steps

import swr

os.environ.setdefault("HF_HUB_OFFLINE", "1")
peft = pytest.importorskip("peft", reason="peft is not installed")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments  # noqa: E402

from swr.integrations.transformers import SWRCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator is found:UserWarning")  # advice on speed

LENGTH, BATCH, COUNT = 8, 2, 6
SIZES = {"vocab_size": 16, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
INPUTS = {"input_ids": torch.zeros(1, LENGTH, dtype=torch.long)}
B_STARTS_AT_ZERO = r"lora_B.*norm was zero.*LoRA's B starts at zero.*no norm to pull towards"


def lora():
    torch.manual_seed(0)
    base = LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=1, pad_token_id=None))
    return peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


@cache
def plan():
    return swr.analyze(lora(), kwargs=INPUTS)


def rows():
    ids = torch.randint(0, 16, (BATCH * COUNT, LENGTH), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


class InOrder(Trainer):
    def _get_train_sampler(self, *args):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def create_optimizer(self, *args):
        self.optimizer = self.optimizer or adam(self.model)
        return self.optimizer


def trainer(folder, **options):
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=COUNT,
        per_device_train_batch_size=BATCH,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        **{"save_strategy": "no", "logging_strategy": "no", **options},
    )
    callback = SWRCallback(plan=plan(), coefficient=COEFFICIENT)
    return InOrder(model=lora(), args=arguments, train_dataset=rows(), callbacks=[callback]), callback


def plain(attach=True):
    model = lora()
    rescaler, optimizer = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT), adam(model)
    if attach:
        with pytest.warns(swr.ModelWarning, match=B_STARTS_AT_ZERO):
            rescaler.attach(optimizer)
    data = [row["input_ids"] for row in rows()]
    for k in range(COUNT):
        ids = torch.stack(data[k * BATCH : (k + 1) * BATCH])
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def same(model, other):
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_the_adapters_alone_are_pulled_in_pairs_whose_product_is_kept():
    found, model = plan(), lora()
    assert {name.split(".")[-3] for name in found.weights} == {"lora_A", "lora_B"}
    assert found.coupled == found.weights
    assert all("lora_" not in name for name in found.frozen)
    weights = {name: float(torch.randn(())) for name in found.weights}
    theta = found.matrix(found.weights) @ torch.tensor(list(weights.values()), dtype=torch.float64)
    theta = dict(zip(found.weights, theta.tolist(), strict=True))
    for name in found.weights:
        if "lora_A" in name:
            assert theta[name] == pytest.approx(-theta[name.replace("lora_A", "lora_B")])
            assert abs(theta[name]) > 1e-3
    assert sum(p.requires_grad for p in model.parameters()) == len(found.weights)


def test_b_has_no_anchor_until_rebase_and_the_first_warning_says_why():
    model = lora()
    rescaler = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT)
    zero = [name for name in rescaler.anchors() if "lora_B" in name]
    assert [rescaler.anchors()[name] for name in zero] == [0.0, 0.0]
    with pytest.warns(swr.ModelWarning, match=B_STARTS_AT_ZERO):
        rescaler.attach(adam(model))
    with torch.no_grad():
        for name in zero:
            model.get_parameter(name).fill_(0.1)
    rescaler.rebase()
    assert all(rescaler.anchors()[name] > 0 for name in zero)


def test_the_trainer_equals_the_plain_loop_and_the_base_model_stays(tmp_path):
    runner, callback = trainer(tmp_path)
    with pytest.warns(swr.ModelWarning, match=B_STARTS_AT_ZERO):
        runner.train()
    assert same(runner.model, plain())
    assert steps(callback.rescaler) == [runner.state.global_step] == [COUNT]
    assert not same(runner.model, plain(attach=False)), "the rescale did nothing"
    start = dict(lora().named_parameters())
    assert all(torch.equal(p, start[name]) for name, p in runner.model.named_parameters() if not p.requires_grad)


def test_resumed_from_a_checkpoint_of_adapters_equals_straight(tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 3}
    straight, reference = trainer(tmp_path, **saving)
    with pytest.warns(swr.ModelWarning, match=B_STARTS_AT_ZERO):
        straight.train()
    resumed, callback = trainer(tmp_path, **saving)
    with pytest.warns(swr.ModelWarning, match=B_STARTS_AT_ZERO):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert same(straight.model, resumed.model)
    assert callback.rescaler.state_dict() == reference.rescaler.state_dict()
