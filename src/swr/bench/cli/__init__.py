"""The command `swr`. Only its options are imported before the command line is parsed."""

from swr.bench.cli.entry import main

__all__ = ["main"]
