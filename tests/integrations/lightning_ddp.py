"""Two processes under Lightning's DDP, compared with one process that sees both their batches at once."""

import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

warnings.simplefilter("ignore")
torch.set_num_threads(1)

import lightning.pytorch as pl  # noqa: E402
from plain_loop import BATCH, COEFFICIENT, EXAMPLE, data, network  # noqa: E402

from swr import SoftWeightRescaling  # noqa: E402
from swr.integrations.lightning import SWRCallback  # noqa: E402

STEPS = 6


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def train_dataloader(self):
        examples = data(2 * STEPS)
        every_second = DistributedSampler(examples, shuffle=False)
        return DataLoader(examples, batch_size=BATCH, sampler=every_second)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)

    def on_train_end(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        SoftWeightRescaling(model, EXAMPLE, coefficient=COEFFICIENT).attach(optimizer)
        for x, y in DataLoader(data(2 * STEPS), batch_size=2 * BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        assert self.trainer.world_size == 2
        (callback,) = (c for c in self.trainer.callbacks if isinstance(c, SWRCallback))
        assert callback.rescaler.state_dict()["optimizers"][0]["steps"] == STEPS
        for mine, theirs in zip(self.net.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        gathered = self.all_gather(torch.cat([p.detach().flatten() for p in self.parameters()]))
        assert torch.equal(gathered[0], gathered[1]), "the ranks differ"
        print(f"rank {self.global_rank} agrees", flush=True)


if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        strategy="ddp_fork",
        devices=2,
        use_distributed_sampler=False,  # it would shuffle
        callbacks=[SWRCallback(EXAMPLE, coefficient=COEFFICIENT)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module())
