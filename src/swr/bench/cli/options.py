"""The commands of `swr`, their options, and their help texts.

Only tyro is imported here, so that `swr --help` answers at once.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg, subcommand

ABOUT = """Soft Weight Rescaling: the paper's experiments, and yours.

Examples:
  swr quickstart                                          the idea in about a minute, no download
  swr run generalization --columns mnist-mlp --dry-run    what would run, and for how long
  swr run generalization --columns mnist-mlp              a table of the paper; after Ctrl-C, run it again to continue
  swr status                                              what is done, running, failed
  swr report                                              tables next to the paper's, charts and runs, as one web page
  swr methods                                             what SWR can be compared with
  swr explain mymodels:make --input 1x3x32x32             how SWR would rescale a model of your own

`swr COMMAND --help` says more; `swr --version` prints the version."""

QUICKSTART = """See what SWR is for: warm start on digits with 30 % noisy labels, about a minute on two cores.

Networks train on half of the data, then on all of it, some of its labels wrong. Prints the final test accuracy without
any method, with L2, S&P and SWR, and the gap to a network that is trained from scratch on all the data ("cold start").

Examples:
  swr quickstart"""
RUN = """Run an experiment of the paper with its best hyper-parameters, or a stream of many short tasks.

What is finished is never run again: the same command continues after Ctrl-C, a crash or a power failure,
and can run several times at once. More methods, columns or seeds only add what is missing.
`nohup swr run … &` goes on when the terminal closes; Ctrl-C does not reach it, and `kill PID` stops it in order.

Experiments:
{experiments}

Columns:
{columns}

Examples:
  swr run warm-start                                         all columns and methods, five seeds
  swr run generalization --columns mnist-mlp cifar10-cnn     two columns
  swr run warm-start --columns mnist-mlp --methods cold vanilla swr --seeds 1 --epochs-scale 0.1
  swr run generalization --columns cifar100-cnnbn --methods swr --hyper features=1e-1 classifier=1e-4
  swr run lr-decay --columns folder:my/images-cnn            your own images in train/CLASS/*, test/CLASS/*
  swr run permuted-pixels --columns digits-mlp --seeds 1     loss of plasticity in minutes, no download"""
SWEEP = """Run the paper's grid of hyper-parameters for one method and print the best.

Selects on a tenth of the training data that is held out; `--select test` trains on everything and selects on
the test set, as the paper does.

Examples:
  swr sweep warm-start --column mnist-mlp --method swr --seeds 1
  swr sweep generalization --column cifar10-cnn --method l2 --select test"""
STATUS = """Show what is in a store: runs by status, those that are running, those that failed and why.

Examples:
  swr status
  swr status generalization          with its table of results
  swr status --errors                with the whole traceback of every failure"""
DATA = """The datasets: which there are, where they are, downloads.

Official files are looked for in --data, in SWR_DATA, and in the user's cache.

Examples:
  swr data list
  swr data download mnist cifar10 --data datasets
  swr data check mnist"""
REPORT = """Write one web page on everything in a store: tables next to the paper's, charts, runs.

It opens from disk, in any browser, without a network. `swr run`, `swr sweep` and `swr quickstart` write it too.

Examples:
  swr report                            swr.html, from swr.sqlite
  swr report --watch                    serve it while `swr run` works, and keep it up to date
  swr report -o results.html --svg figures --pdf figures
  swr report --png figures --markdown results.md"""
EXPORT = """Write a store as plain CSV files: runs, metrics, norms, measures.

One row per run, one per run and epoch; every digit is kept, and `swr import` reads them back. Exporting again only changes
the rows of what was run since, so the folder can be kept under version control. Works while runs are being written.

Examples:
  swr export -o results
  python -c "import pandas; print(pandas.read_csv('results/runs.csv'))"
  duckdb -c "SELECT method, avg(test_accuracy) FROM 'results/runs.csv' GROUP BY method\""""
IMPORT = """Add the runs of another store, or of a folder that `swr export` wrote.

The same run has the same id everywhere, so nothing is added twice: a finished run replaces an unfinished one, otherwise
the run in this store is kept. Either everything is added or, if anything is damaged, nothing.

Examples:
  swr import from-the-cluster/swr.sqlite
  swr import results --store all.sqlite"""
METHODS = """List the methods, a line each; or print the whole description of one.

Examples:
  swr methods
  swr methods redo"""
EXPLAIN = """Print the scale plan of your own model: what SWR may rescale, what is coupled or held, and why.

The factory is called without arguments; modules in the current folder are found.

Examples:
  swr explain mymodels.nets:make --input 1x3x32x32
  swr explain mymodels.text:Transformer --input int:2x16 --input 2x16x8"""

Folder = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: SWR_DATA, then the user's cache)")]
Workers = Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one per core)")]
File = Annotated[Path, arg(metavar="FILE")]
Device = Annotated[str, arg(metavar="DEVICE")]
Images = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]
Flag = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="")]


@dataclass(frozen=True)
class Quickstart:
    """See what SWR is for, in about a minute."""

    workers: Workers = None
    """Processes to use, one thread each."""
    store: File = Path("swr.sqlite")
    """The file for results."""


@dataclass(frozen=True)
class Run:
    """Run an experiment of the paper."""

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """Which one."""
    columns: Annotated[tuple[str, ...], arg(metavar="COLUMN …", help_behavior_hint="(default: the paper's)")] = ()
    """Dataset and model: one of the columns above, or any other DATASET-MODEL."""
    methods: Annotated[tuple[str, ...], arg(metavar="METHOD …", help_behavior_hint="(default: the paper's)")] = ()
    """Names that `swr methods` lists, MODULE:CLASS for one of your own, or cold: vanilla from scratch."""
    seeds: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the paper's, 5, for VGG-16 3)")] = None
    """How many seeds: 0 … N-1."""
    epochs_scale: Annotated[float, arg(metavar="F")] = 1.0
    """Multiplies every number of epochs, or of tasks if a task is one epoch: 0.1 for a first impression."""
    hyper: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE …", help_behavior_hint="(default: the paper's best)")] = ()
    """Hyper-parameters of the one method that --methods names, such as coefficient=1e-3."""
    inputs: Literal["normalised", "raw"] = "normalised"
    """Images normalised per channel, or from 0 to 1, unchanged."""
    workers: Workers = None
    """Processes to use, one thread each."""
    data: Folder = None
    """Where the datasets' official files are, or go."""
    store: File = Path("swr.sqlite")
    """The file for results; checkpoints of unfinished runs are kept next to it."""
    device: Device = "auto"
    """cpu, cuda, cuda:1, …; auto takes a GPU when there is one."""
    dry_run: Flag = False
    """Only list the runs and estimate the time."""


@dataclass(frozen=True)
class Sweep:
    """Run a method's grid of hyper-parameters and print the best."""

    scenario: Annotated[Positional[str], arg(metavar="SCENARIO")]
    """The experiment to tune for."""
    column: Annotated[str, arg(metavar="COLUMN")]
    """Dataset and model, such as mnist-mlp."""
    method: Annotated[str, arg(metavar="METHOD")]
    """l2, l2-init, shrink-perturb, swr or swr-reinit."""
    seeds: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the paper's, 5, for VGG-16 3)")] = None
    """How many seeds per point of the grid."""
    epochs_scale: Annotated[float, arg(metavar="F")] = 1.0
    """Multiplies every number of epochs."""
    select: Literal["validation", "test"] = "validation"
    """What decides: held-out training data, or the test set."""
    workers: Workers = None
    """Processes to use, one thread each."""
    data: Folder = None
    """Where the datasets' official files are, or go."""
    store: File = Path("swr.sqlite")
    """The file for results."""
    device: Device = "auto"
    """cpu, cuda, cuda:1, …; auto takes a GPU when there is one."""
    dry_run: Flag = False
    """Only list the runs and estimate the time."""


@dataclass(frozen=True)
class Status:
    """Show what is done, running, failed."""

    experiment: Annotated[Positional[str | None], arg(metavar="[EXPERIMENT]", help_behavior_hint="(default: all)")] = None
    """Only this one, with its table of results."""
    store: File = Path("swr.sqlite")
    """The file to look into."""
    errors: Flag = False
    """Show the traceback of every failed run."""


@dataclass(frozen=True)
class Report:
    """Write one web page on everything in a store."""

    store: File = Path("swr.sqlite")
    """The file to report on."""
    output: Annotated[
        Path | None, arg(metavar="PAGE", aliases=["-o"], help_behavior_hint="(default: the store's name with .html)")
    ] = None
    """The page to write."""
    png: Images = None
    """Also write every chart as PNG into this folder."""
    svg: Images = None
    """The same as SVG."""
    pdf: Images = None
    """The same as PDF."""
    markdown: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Also write the tables, the command of each cell, and the charts of --png as Markdown; in an existing file only what
    stands between the report's marks is replaced."""
    watch: Flag = False
    """Serve the page on this machine and keep it up to date until Ctrl-C (in the background: until kill)."""
    port: Annotated[int, arg(metavar="N")] = 8765
    """Where to serve it; 0 takes a free one."""


@dataclass(frozen=True)
class Export:
    """Write a store as plain CSV files."""

    output: Annotated[Path, arg(metavar="DIR", aliases=["-o"])]
    """The folder to write into; it is created if necessary."""
    store: File = Path("swr.sqlite")
    """The file to export."""


@dataclass(frozen=True)
class Import:
    """Add the runs of another store, or of exported files."""

    source: Annotated[Positional[Path], arg(metavar="FILE_OR_DIR")]
    """A store, or a folder that `swr export` wrote."""
    store: File = Path("swr.sqlite")
    """The file to add them to; it is created if necessary."""


@dataclass(frozen=True)
class DataList:
    """List the datasets, and which of them are on this machine."""

    data: Folder = None
    """A folder to look in first."""


@dataclass(frozen=True)
class DataDownload:
    """Download official files, checked by hash; an interrupted download continues where it stopped."""

    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME …")]
    """Datasets: mnist, cifar10, cifar100, tinyimagenet."""
    data: Folder = None
    """Where they go."""


@dataclass(frozen=True)
class DataCheck:
    """Read the files again and compare them with the published hashes."""

    names: Annotated[
        Positional[tuple[str, ...]], arg(metavar="[NAME …]", help_behavior_hint="(default: all that are here)")
    ] = ()
    """Datasets, or folder:PATH."""
    data: Folder = None
    """A folder to look in first."""


@dataclass(frozen=True)
class Data:
    """List, download and check the datasets."""

    action: (
        Annotated[DataList, subcommand("list")]
        | Annotated[DataDownload, subcommand("download")]
        | Annotated[DataCheck, subcommand("check")]
    )


@dataclass(frozen=True)
class Methods:
    """List the methods, or explain one."""

    name: Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="(default: all, a line each)")] = None
    """Which one."""


@dataclass(frozen=True)
class Explain:
    """Print how SWR would rescale your own model."""

    target: Annotated[Positional[str], arg(metavar="PACKAGE.MODULE:FACTORY")]
    """What makes the model."""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE", help_behavior_hint="(required)")] = ()
    """The shape of an input: 1x3x32x32, or int:2x16 for integers; once for each input of the model."""


Command = Quickstart | Run | Sweep | Status | Report | Export | Import | Data | Methods | Explain
COMMANDS: dict[str, tuple[type[Command], str]] = {
    "quickstart": (Quickstart, QUICKSTART),
    "run": (Run, RUN),
    "sweep": (Sweep, SWEEP),
    "status": (Status, STATUS),
    "report": (Report, REPORT),
    "export": (Export, EXPORT),
    "import": (Import, IMPORT),
    "data": (Data, DATA),
    "methods": (Methods, METHODS),
    "explain": (Explain, EXPLAIN),
}
"""by name, each with its whole description"""


def named() -> Any:
    """What tyro parses for `swr --help`: the commands with a line each."""
    return reduce(or_, (Annotated[kind, subcommand(name)] for name, (kind, _) in COMMANDS.items()))


def explained() -> Any:
    """What tyro parses for `swr COMMAND …`: the commands with their whole descriptions."""
    from swr.bench.experiments import COLUMNS, experiments  # here, since they need torch

    lists = {
        "experiments": "\n".join(f"  {name:<18}  {one.about}" for name, one in experiments().items()),
        "columns": "\n".join(f"  {name:<18}  {one.title}" for name, one in COLUMNS.items()),
    }
    described = ((kind, name, text.format(**lists) if kind is Run else text) for name, (kind, text) in COMMANDS.items())
    return reduce(or_, (Annotated[kind, subcommand(name, description=text)] for kind, name, text in described))
