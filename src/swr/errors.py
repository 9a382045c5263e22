"""What can go wrong, one exception type per kind of mistake, all below :class:`SWRError`."""


class SWRError(Exception):
    """Base of every error that swr raises on purpose."""


class ModelError(SWRError):
    """The model cannot be analysed: it is wrapped, has no parameters, or cannot be traced."""


class InputsError(SWRError):
    """The model rejects the example inputs."""


class PlanError(SWRError):
    """A plan does not belong to this model, or does not allow what was asked."""


class OptionError(SWRError, ValueError):
    """An option has a value outside its range or its list of choices."""


class AttachError(SWRError):
    """The optimizer and the method do not fit together."""


class AttachWarning(UserWarning):
    """A method was attached to an optimizer that is no longer the one that steps."""


class ModelWarning(UserWarning):
    """The model is not what a method was built for, or leaves it little to do."""


class StateError(SWRError):
    """A state dict does not belong to this object."""
