"""What the paper and the field ask: experiments, columns, models, streams, published numbers."""

from swr.bench.experiments.column import Column, Hyper, Published
from swr.bench.experiments.columns import COLUMNS, column_title, find_column, published
from swr.bench.experiments.config import RunConfig
from swr.bench.experiments.expansion import expand, sweep
from swr.bench.experiments.experiment import Experiment
from swr.bench.experiments.metrics import ACCURACY, AT_START, ERROR, FIRST, LAST, TEST, Metric
from swr.bench.experiments.paper import COLD, experiments, find_experiment, title
from swr.bench.experiments.scenario import Scenario
from swr.bench.experiments.scenarios import find_scenario
from swr.bench.experiments.streams import STREAMS, Size, Stream
from swr.bench.experiments.task import Task, View

__all__ = [
    "ACCURACY",
    "AT_START",
    "COLD",
    "COLUMNS",
    "ERROR",
    "FIRST",
    "LAST",
    "STREAMS",
    "TEST",
    "Column",
    "Experiment",
    "Hyper",
    "Metric",
    "Published",
    "RunConfig",
    "Scenario",
    "Size",
    "Stream",
    "Task",
    "View",
    "column_title",
    "expand",
    "experiments",
    "find_column",
    "find_experiment",
    "find_scenario",
    "published",
    "sweep",
    "title",
]
