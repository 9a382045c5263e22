"""Plain training: the line everything is compared with."""

from swr.methods.base import Method


class Vanilla(Method):
    """Do nothing."""

    name = "vanilla"
    title = "vanilla"
    only_at_new_task = True
