"""Notice that a method which needs activations never gets any."""

from __future__ import annotations

from swr.errors import ModelError

PATIENCE = 100
"""steps in a row before which no training pass was seen, until that is an error"""


class Unseen:
    """Counts the steps before which no training pass was seen."""

    def __init__(self) -> None:
        self._steps = 0

    def count(self, unseen: bool) -> bool:
        """Whether this step had no pass.

        Raises:
            ModelError: :data:`PATIENCE` steps in a row had none.
        """
        self._steps = self._steps + 1 if unseen else 0
        if self._steps == PATIENCE:
            raise ModelError(
                f"{PATIENCE} steps without a training pass that could be seen: inside torch.compile, or in another copy of the "
                "model, activations are hidden; train the plain model that the method was made for."
            )
        return unseen
