"""The commands of `swr`, their options, and their help texts.

Only tyro is imported here, so that `swr --help` answers at once.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg, subcommand

from swr.bench.cli.listing import FILE
from swr.bench.cli.option_types import Factor, Names, Whole, WholeOrDefault

ABOUT = """Soft Weight Rescaling: the paper's experiments, and yours.

Examples:
  swr quickstart                       the idea in about a minute, no download
  swr run generalization --columns mnist-mlp --dry-run
                                       what would run, and for how long
  swr run generalization --columns mnist-mlp
                                       a table of the paper; after Ctrl-C, give
                                       the same command again to continue
  swr status                           what is done, running, failed
  swr report                           tables, charts and runs as one web page
  swr compare swr l2 --experiment warm-start --column mnist-mlp
                                       the paired difference of two methods
  swr methods                          what SWR can be compared with
  swr leaderboard --dry-run            all of them, tuned fairly, in one table
  swr explain mymodels:make --input 1x3x32x32
                                       how SWR would rescale your own model
  swr diagnose mymodels:make --checkpoint model.pt --data new.pt
                                       has your network lost plasticity?

`swr COMMAND --help` says more; `swr --version` prints the version."""

QUICKSTART = """See what SWR is for: warm start on digits with 30 % noisy labels, about a minute on two cores.

Networks train on half of the data, then on all of it, some of its labels wrong. Prints the final test accuracy without
any method, with L2, S&P and SWR, and the gap to a network that is trained from scratch on all the data ("cold start").

Examples:
  swr quickstart"""
RUN = """Run an experiment of the paper with its best hyper-parameters, one of ours, or a stream of many short tasks.

What is finished is never run again: the same command continues after Ctrl-C, a crash or a power failure,
and can run several times at once. More methods, columns or seeds only add what is missing.

{lists}

Examples:
  swr run warm-start
  swr run generalization --columns mnist-mlp cifar10-cnn --seeds 2
  swr run warm-start --columns mnist-mlp --methods cold vanilla swr
  swr run generalization --columns cifar100-cnnbn --methods swr \\
      --hyper features=1e-1 classifier=1e-4
  swr run lr-decay --columns folder:my/images-cnn
                               your own images in train/CLASS/*, test/CLASS/*
  swr run permuted-pixels --columns digits-mlp --seeds 1 --epochs-scale 0.1
                               loss of plasticity in minutes, no download
  swr run generalization --columns cifar10-cnn --examples 4000 --seeds 100-104
                               a part of the data, other seeds
  swr run warm-start --engine ray --address auto
                               on all machines of a Ray cluster
  nohup swr run warm-start &   goes on when the terminal closes; `kill PID`
                               stops it in order"""
SWEEP = """Run a grid of hyper-parameters for one method, by default the paper's, and print the best.

Selects on a tenth of the training data that is held out; `--select test` trains on everything and selects on
the test set, as the paper does. A stream holds nothing out: its own metric decides, so tune on other seeds than
those you report.

Examples:
  swr sweep warm-start --column mnist-mlp --method swr --seeds 1
  swr sweep generalization --column cifar10-cnn --method l2 --select test
  swr sweep permuted-pixels --column digits-mlp --method redo --grid threshold=0,0.1 --grid every=100,1000 --seeds 100-102"""
LEADERBOARD = """Compare every method, tuned fairly: how much of the lost plasticity does each recover?

Each method has at most five configurations. The best one on the tuning seed, by average online accuracy or by held-out data,
runs on other seeds and is reported once. The score is (method - vanilla) / (fresh network - vanilla) over the last
tenth of the tasks. Stream by stream, and what is finished is never run again: the same command continues.

Streams: permuted-pixels, random-labels, label-permutation (digits, the default), warm-start, limited (MNIST's first
6,000 images).

Examples:
  swr leaderboard --dry-run    how many runs, how many hours of a core
  swr leaderboard --streams permuted-pixels --methods l2-init swr-budget
  swr leaderboard --report     write docs/leaderboard.md and leaderboard.html
                               from what is done, and run nothing
  swr import results/leaderboard && swr leaderboard --report
                               the published page again"""
STATUS = """Show what is in a store: runs by status, those that are running, those that failed and why.

Examples:
  swr status
  swr status generalization    with its table of results
  swr status --errors          with the whole traceback of every failure"""
DATA = """The datasets: which there are, where they are, downloads.

Official files are looked for in --data, in SWR_DATA, and in the user's cache.

Examples:
  swr data list
  swr data download mnist cifar10 --data datasets
  swr data check mnist"""
REPORT = """Write one web page on everything in a store: tables next to the paper's, charts, runs.

It opens from disk, in any browser, without a network. `swr run`, `swr sweep` and `swr quickstart` write it too.

Examples:
  swr report                   swr.html, from swr.sqlite
  swr report --watch           serve it while `swr run` works, and keep it up to
                               date
  swr report -o results.html --svg figures --pdf figures
  swr report --png figures --markdown results.md"""
COMPARE = """Compare two methods, or two stores: the paired difference over the seeds, its interval, every seed, a chart.

Examples:
  swr compare swr l2 --experiment warm-start --column mnist-mlp
  swr compare mine.sqlite theirs.sqlite --experiment warm-start --column mnist-mlp"""
EXPORT = """Write a store as plain CSV files: runs.csv, metrics.csv, norms.csv, measures.csv.

One row per run, one per run and epoch; every digit is kept, and `swr import` reads them back. Exporting again only changes
the rows of what was run since, so the folder can be kept under version control. Runs that are not finished are left out.
A folder with runs that the store lacks, or with files of another program, is not changed.

Examples:
  swr export -o results
  swr export -o results/leaderboard --last --store leaderboard.sqlite
                               many runs of which only the end is asked for
  python -c "import pandas; print(pandas.read_csv('results/runs.csv'))"
  duckdb -c "SELECT method, avg(test_accuracy) FROM 'results/runs.csv'
             GROUP BY method\""""
IMPORT = """Add the runs of another store, or of a folder that `swr export` wrote.

The same run has the same id everywhere, so nothing is added twice: a finished run replaces an unfinished one, otherwise
the run in this store is kept. Either everything is added or, if an epoch is missing or a number impossible, nothing.

Examples:
  swr import from-the-cluster/swr.sqlite
  swr import results --store all.sqlite"""
REMOVE = """Remove runs from a store: failed ones, or any that are not wanted, with their epochs and checkpoints.

Conditions that are given together must all hold. Either all of these runs are removed or none; one that a process executes
now is kept. A folder that was exported before keeps its runs: export into another one, or delete it first.

Examples:
  swr remove --failed --dry-run
                               which runs that would be
  swr remove --experiment warm-start --methods redo
  swr remove 3b1f0c52a4de9876
                               ids are in `swr status --errors`,
                               `swr run … --dry-run` and runs.csv"""
METHODS = """List the methods, with a sentence each; or print the whole description of one.

Examples:
  swr methods
  swr methods redo"""
EXPLAIN = """Print the scale plan of your own model: what SWR may rescale, what is coupled or held, and why.

The factory is called without arguments; modules in the current folder are found.

Examples:
  swr explain mymodels.nets:make --input 1x3x32x32
  swr explain mymodels.text:Transformer --input int:2x16 --input 2x16x8"""
DIAGNOSE = """Find out whether your trained network has lost plasticity, in which layer, and what to try.

Copies of it and fresh networks train on the same batches, and their losses are compared. Give batches of a task that is new
to the network; if it knows them already, their classes are relabelled. The checkpoint is only read.

Examples:
  swr diagnose mymodels:make --checkpoint model.pt --data mymodels:new_batches
  swr diagnose mymodels:make --checkpoint model.pt --data new.pt -o diagnose.html
  swr diagnose mymodels:make --checkpoint model.pt --input 128x3x32x32     without data: noise with random labels"""

Folder = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: SWR_DATA, then the user's cache)")]
Workers = Annotated[WholeOrDefault, arg(help_behavior_hint="(default: one per core)")]
Seeds = Annotated[str | None, arg(metavar="N|A-B", help_behavior_hint="(default: the paper's, 5, for VGG-16 3)")]
Examples = Annotated[WholeOrDefault, arg(help_behavior_hint="(default: all, or as the stream says)")]
LRSchedule = Annotated[
    Literal["step", "cosine", "warmup-cosine", "one-cycle", "restarts"] | None,
    arg(help_behavior_hint="(default: the experiment's)"),
]
File = Annotated[Path, arg(metavar="FILE")]
Device = Annotated[str, arg(metavar="DEVICE")]
Images = Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")]
GRID = "(default: the paper's, or around the method's default)"
Flag = Annotated[FlagCreatePairsOff[bool], arg(help_behavior_hint="")]


@dataclass(frozen=True)
class Cluster:
    """where runs are executed"""

    engine: Literal["local", "ray"] = "local"
    """Processes of this machine, or tasks of Ray: here, or on a cluster (docs/cluster.md)."""
    address: Annotated[str | None, arg(metavar="HOST:PORT", help_behavior_hint="(default: start Ray on this machine)")] = None
    """A Ray cluster to join; auto: the one that this machine is part of."""
    cpus_per_run: Annotated[float, arg(metavar="N")] = 1.0
    """Processors of one run on Ray, and its threads; other results than with 1 in the last bits."""
    gpus_per_run: Annotated[float | None, arg(metavar="N", help_behavior_hint="(default: 1 on a GPU, else 0)")] = None
    """GPUs of one run on Ray; 0.25 puts four runs on one."""
    checkpoints: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: next to the store)")] = None
    """A folder on a disk that all machines share; without one, checkpoints travel to this machine."""
    runtime_env: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """A runtime environment for Ray, as YAML or JSON."""
    ray_logs: Flag = False
    """Show what Ray and its workers print."""
    emit: Annotated[Literal["slurm"] | None, arg(metavar="slurm", help_behavior_hint="")] = None
    """Print a batch script that does this on a Slurm allocation, and run nothing."""


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
    """One of the experiments above, such as warm-start."""
    columns: Annotated[Names, arg(metavar="COLUMN …", help_behavior_hint="(default: the paper's)")] = ()
    """Such as mnist-mlp: columns above, or any other DATASET-MODEL."""
    methods: Annotated[Names, arg(metavar="METHOD …", help_behavior_hint="(default: the paper's)")] = ()
    """Such as vanilla swr: names that `swr methods` lists, MODULE:CLASS for one of your own, NAME+NAME for several at
    once, or cold for vanilla from scratch."""
    seeds: Seeds = None
    """How many seeds, 0 … N-1, or which, such as 100-109."""
    epochs_scale: Factor = 1.0
    """Multiplies every number of epochs, or of tasks if a task is one epoch: 0.1 for a first impression."""
    hyper: Annotated[Names, arg(metavar="NAME=VALUE …", help_behavior_hint="(default: the paper's best)")] = ()
    """Hyper-parameters of the one method that --methods names, such as coefficient=1e-3."""
    inputs: Literal["normalised", "raw"] = "normalised"
    """Images normalised per channel, or from 0 to 1, unchanged."""
    examples: Examples = None
    """Train on the first N images only, the same for every seed, not stratified; a stream draws N for each task."""
    validation: Factor = 0.0
    """Part of the training data to hold out and measure on."""
    lr_schedule: LRSchedule = None
    """How the learning rate changes over the run; step: constant, but for the drops of lr-decay."""
    precision: Literal["float32", "bf16"] = "float32"
    """Of passes through the network; bf16: autocast, faster on large networks, other results."""
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
    cluster: OmitArgPrefixes[Cluster] = Cluster()


@dataclass(frozen=True)
class Sweep:
    """Run a method's grid of hyper-parameters and print the best."""

    scenario: Annotated[Positional[str], arg(metavar="SCENARIO")]
    """The experiment to tune for, such as warm-start."""
    column: Annotated[str, arg(metavar="COLUMN")]
    """Dataset and model, such as mnist-mlp."""
    method: Annotated[str, arg(metavar="METHOD")]
    """A name that `swr methods` lists, or MODULE:CLASS for one of your own."""
    grid: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE,VALUE", help_behavior_hint=GRID)] = ()
    """Values of a hyper-parameter to try; given several times, every combination."""
    seeds: Seeds = None
    """How many seeds per point of the grid, or which: select with others than you report."""
    epochs_scale: Factor = 1.0
    """Multiplies every number of epochs."""
    examples: Examples = None
    """Use the first N training images only, a part of them to select on; a stream draws N for each task."""
    lr_schedule: LRSchedule = None
    """How the learning rate changes over the run."""
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
    cluster: OmitArgPrefixes[Cluster] = Cluster()


@dataclass(frozen=True)
class Leaderboard:
    """Compare every method, tuned fairly."""

    streams: Annotated[Names, arg(metavar="NAME …", help_behavior_hint="(default: the three on digits)")] = ()
    """Where methods are compared: those above."""
    methods: Annotated[Names, arg(metavar="METHOD …", help_behavior_hint="(default: all rows)")] = ()
    """Rows of the board: names that `swr methods` lists, or a composition of the board such as swr-budget+l2-init."""
    seeds: Annotated[str | None, arg(metavar="N|A-B", help_behavior_hint="(default: 5, which are 300-304)")] = None
    """Seeds that are reported: how many, or which."""
    epochs_scale: Factor = 1.0
    """Multiplies the number of tasks or epochs; other results than the board's."""
    workers: Workers = None
    """Processes to use, one thread each."""
    data: Folder = None
    """Where the datasets' official files are, or go."""
    store: File = Path("swr.sqlite")
    """The file for results."""
    dry_run: Flag = False
    """Only count the runs and estimate the time."""
    report: Flag = False
    """Write the page and the Markdown from what is done, and run nothing."""
    markdown: Annotated[Path, arg(metavar="FILE")] = Path("docs/leaderboard.md")
    """Of --report: the text between its marks is replaced, its chart goes into charts/ beside it."""
    output: Annotated[Path | None, arg(metavar="PAGE", aliases=["-o"], help_behavior_hint="(default: leaderboard.html)")] = None
    """Of --report: the web page."""


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
    port: Whole = 8765
    """Where to serve it; 0 takes a free one."""


@dataclass(frozen=True)
class Compare:
    """Compare two methods, or two stores, seed by seed."""

    first: Annotated[Positional[str], arg(metavar="A")]
    """A method, or a store."""
    second: Annotated[Positional[str], arg(metavar="B")]
    """Another, which is subtracted."""
    experiment: Annotated[str, arg(metavar="EXPERIMENT")]
    """Which experiment."""
    column: Annotated[str, arg(metavar="COLUMN")]
    """Dataset and model, such as mnist-mlp."""
    store: File = Path("swr.sqlite")
    """The file that holds two methods."""


@dataclass(frozen=True)
class Export:
    """Write a store as plain CSV files."""

    output: Annotated[Path, arg(metavar="DIR", aliases=["-o"])]
    """The folder to write into; it is created if necessary."""
    unfinished: Flag = False
    """Export also the runs that are waiting, running or failed."""
    last: Flag = False
    """Export only the last epoch of each run: results without curves, in a small part of the size."""
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
class Remove:
    """Remove failed or unwanted runs from a store."""

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN …]", help_behavior_hint="")] = ()
    """The ids of runs."""
    failed: Flag = False
    """Those that failed."""
    experiment: Annotated[str | None, arg(metavar="EXPERIMENT", help_behavior_hint="(default: any)")] = None
    """Those of this experiment."""
    columns: Annotated[Names, arg(metavar="COLUMN …", help_behavior_hint="(default: any)")] = ()
    """Those on these columns."""
    methods: Annotated[Names, arg(metavar="METHOD …", help_behavior_hint="(default: any)")] = ()
    """Those of these methods."""
    store: File = Path("swr.sqlite")
    """The file to remove them from."""
    dry_run: Flag = False
    """Only list them."""


@dataclass(frozen=True)
class DataList:
    """List the datasets, and which of them are on this machine."""

    data: Folder = None
    """A folder to look in first."""


@dataclass(frozen=True)
class DataDownload:
    """Download official files, checked by hash; an interrupted download continues where it stopped."""

    names: Annotated[Positional[tuple[str, ...]], arg(metavar="NAME …", help_behavior_hint="(required)")]
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

    name: Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="(default: all, a sentence each)")] = None
    """Such as redo, or MODULE:CLASS for one of your own."""


@dataclass(frozen=True)
class Explain:
    """Print how SWR would rescale your own model."""

    target: Annotated[Positional[str], arg(metavar="PACKAGE.MODULE:FACTORY")]
    """What makes the model."""
    input: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SHAPE", help_behavior_hint="(required)")] = ()
    """The shape of an input: 1x3x32x32, or int:2x16 for integers; once for each input of the model."""


@dataclass(frozen=True)
class Diagnose:
    """Find out whether your network has lost plasticity."""

    target: Annotated[Positional[str], arg(metavar="PACKAGE.MODULE:FACTORY")]
    """What makes an untrained network; it is called without arguments, once for each pair."""
    checkpoint: Annotated[Path, arg(metavar="FILE")]
    """The trained network: a state dict, or a dict with one under "model", "state_dict" or "model_state_dict"."""
    data: Annotated[str | None, arg(metavar="DATA", help_behavior_hint="(default: none, use --input)")] = None
    """PACKAGE.MODULE:BATCHES, pairs of inputs and targets or a function that returns them; or a .pt file with inputs and
    targets as two tensors."""
    input: Annotated[str | None, arg(metavar="SHAPE", help_behavior_hint="(default: none, use --data)")] = None
    """Without data: the shape of one batch, 128x3x32x32."""
    loss: Literal["cross_entropy", "mse"] = "cross_entropy"
    """The loss function."""
    targets: Literal["auto", "given", "relabelled", "shuffled"] = "auto"
    """Train on the targets as given, with other labels for the classes (a related task), or shuffled over the examples (an
    unrelated one); auto relabels if the network knows the batches."""
    steps: Whole = 500
    """How long each network trains."""
    seeds: Whole = 5
    """How many pairs of networks are compared."""
    lr: Annotated[tuple[float, ...], arg(metavar="LR …")] = (1e-3, 3e-3)
    """Learning rates of Adam; each network is judged at its best."""
    batch_size: Whole = 128
    """Of a .pt file's examples."""
    no_layers: Flag = False
    """Do not look for the layer it comes from, which takes as many trainings again for each layer."""
    output: Annotated[Path | None, arg(metavar="PAGE", aliases=["-o"], help_behavior_hint="")] = None
    """Also write the answer as a web page."""
    json: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Also write all numbers as JSON."""


Command = (
    Quickstart
    | Run
    | Sweep
    | Leaderboard
    | Status
    | Report
    | Compare
    | Export
    | Import
    | Remove
    | Data
    | Methods
    | Explain
    | Diagnose
)
COMMANDS: dict[str, tuple[type[Command], str]] = {
    "quickstart": (Quickstart, QUICKSTART),
    "run": (Run, RUN),
    "sweep": (Sweep, SWEEP),
    "leaderboard": (Leaderboard, LEADERBOARD),
    "status": (Status, STATUS),
    "report": (Report, REPORT),
    "compare": (Compare, COMPARE),
    "export": (Export, EXPORT),
    "import": (Import, IMPORT),
    "remove": (Remove, REMOVE),
    "data": (Data, DATA),
    "methods": (Methods, METHODS),
    "explain": (Explain, EXPLAIN),
    "diagnose": (Diagnose, DIAGNOSE),
}
"""by name, each with its whole description"""


def named() -> Any:
    """What tyro parses for `swr --help`: the commands with a line each."""
    return reduce(or_, (Annotated[kind, subcommand(name)] for name, (kind, _) in COMMANDS.items()))


def explained() -> Any:
    """What tyro parses for `swr COMMAND …`: the commands with their whole descriptions."""
    described = (
        (kind, name, text.format(lists=FILE.read_text(encoding="utf-8").strip()) if kind is Run else text)
        for name, (kind, text) in COMMANDS.items()
    )
    return reduce(or_, (Annotated[kind, subcommand(name, description=text)] for kind, name, text in described))
