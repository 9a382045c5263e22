"""The commands of `swr` and their options.

Only tyro is imported here, so that `swr --help` answers at once.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg, subcommand

from swr.bench.cli import texts
from swr.bench.cli.listing import FILE
from swr.bench.cli.option_types import Factor, Names, Whole, WholeOrDefault

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
    """Names that `swr methods` lists, MODULE:CLASS for your own, NAME+NAME for several at once, cold: vanilla from scratch."""
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
    """Also write tables, the commands of the cells and the charts of --png as Markdown; in a FILE with marks, between them."""
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
    """Export only the last epoch of a finished run: results without curves, in a small part of the size."""
    store: File = Path("swr.sqlite")
    """The file to export."""


@dataclass(frozen=True)
class Import:
    """Add the runs of another store, or of exported files."""

    source: Annotated[Positional[Path], arg(metavar="FILE_OR_DIR")]
    """A store, a folder that `swr export` wrote, or one with such folders."""
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
    """PACKAGE.MODULE:BATCHES, pairs of inputs and targets or a function that returns them; or a .pt file of two tensors."""
    input: Annotated[str | None, arg(metavar="SHAPE", help_behavior_hint="(default: none, use --data)")] = None
    """Without data: the shape of one batch, 128x3x32x32."""
    loss: Literal["cross_entropy", "mse"] = "cross_entropy"
    """The loss function."""
    targets: Literal["auto", "given", "relabelled", "shuffled"] = "auto"
    """As given, with other labels (a related task), shuffled (an unrelated one); auto: relabelled if the network knows them."""
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
    "quickstart": (Quickstart, texts.QUICKSTART),
    "run": (Run, texts.RUN),
    "sweep": (Sweep, texts.SWEEP),
    "leaderboard": (Leaderboard, texts.LEADERBOARD),
    "status": (Status, texts.STATUS),
    "report": (Report, texts.REPORT),
    "compare": (Compare, texts.COMPARE),
    "export": (Export, texts.EXPORT),
    "import": (Import, texts.IMPORT),
    "remove": (Remove, texts.REMOVE),
    "data": (Data, texts.DATA),
    "methods": (Methods, texts.METHODS),
    "explain": (Explain, texts.EXPLAIN),
    "diagnose": (Diagnose, texts.DIAGNOSE),
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
