"""Soft Weight Rescaling in the Trainer of TorchRL: attach to its optimizers, save and restore with its checkpoints.

The Trainer's own place for such a thing is ``post_optim``, which it runs after every sub-batch. That is not after every step:
its mixed-precision stepper accumulates gradients and skips overflows, and with several optimizers it does not say which moved.
So the hook attaches to the optimizers themselves, and asks the Trainer only to save it. A rescale then also comes before
the update of the target networks, which is a ``post_optim`` operation.

A loss makes its networks functional: it keeps their parameters and runs an empty copy. The parameters are still the objects
that the networks were built with, and the optimizer's are found among them by identity. One thing is different: a loss that
expands a network (``num_qvalue_nets`` of SAC, TD3 and REDQ, or a list of networks) makes one stacked parameter of all copies.
It is no parameter of a network, and the norm of a stack is not the norm of a layer, so these cannot be rescaled.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer

from swr.hooks import Handle
from swr.integrations.common import holders
from swr.rescaling import SoftWeightRescaling

if TYPE_CHECKING or find_spec("torchrl") is not None:
    from torchrl.trainers import Trainer, TrainerHookBase
else:
    raise ModuleNotFoundError("swr.integrations.torchrl needs TorchRL; install it: pip install torchrl", name="torchrl")


class SWRHook(TrainerHookBase):  # type: ignore[misc]
    """Rescale a network after every real step of the Trainer's optimizers.

        rescaler = swr.SoftWeightRescaling(network, observation, keep_output=True)  # the network that the loss was built with
        SWRHook(rescaler).register(trainer)

    Values and actions have a meaning of their own, hence ``keep_output=True``. For several networks, register one hook for
    each, under names of their own.

    Args:
        rescaler: of a network that the loss was built with.
    """

    def __init__(self, rescaler: SoftWeightRescaling) -> None:
        self.rescaler = rescaler
        self.handles: list[Handle] = []

    def register(self, trainer: Trainer, name: str = "swr") -> None:
        """Attach to the optimizers of this Trainer that hold parameters of the network, and be saved under ``name``.

        Args:
            trainer: with its optimizers.
            name: in the Trainer's checkpoints.

        Raises:
            AttachError: no optimizer holds any.
        """
        optimizers = holders(self.rescaler.model, _optimizers(trainer), "the Trainer")
        trainer.register_module(name, self)
        self.handles = [self.rescaler.attach(optimizer) for optimizer in optimizers]

    def state_dict(self) -> dict[str, Any]:
        """The rescaler's state."""
        return self.rescaler.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken."""
        self.rescaler.load_state_dict(state_dict)


def _optimizers(trainer: Trainer) -> list[Optimizer]:
    """Those of the Trainer, of its stepper and of what is registered with it."""
    owners = [trainer, trainer.optimization_stepper, *trainer._modules.values()]
    found = [value for owner in owners if owner is not None for value in vars(owner).values() if isinstance(value, Optimizer)]
    return list({id(optimizer): optimizer for optimizer in found}.values())
