"""The sentences under a table, and what is missing in cells that are not complete."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from swr.bench.experiments import COLUMNS, column_title, experiments
from swr.bench.experiments.run_description import origin, standard
from swr.bench.store import Record
from swr.bench.words import listed, plural

if TYPE_CHECKING:
    from swr.bench.report.tables import Row

SPREAD = "Mean ± standard deviation (n - 1) over the seeds."
INTERVAL = "Intervals: 95 % confidence for the mean, by Student's distribution."
BEST = (
    "Bold: the best of a column; from two seeds on, and only if the 95 % interval of its paired difference to every other "
    "complete cell, reference lines aside, excludes zero."
)
MEDIAN = (
    "Of each run, the median over its last tenth of epochs: Adam has a bad epoch now and then, above all while the learning "
    "rate is large, and one at the very end decides the final accuracy."
)
CHANGE = (
    "Of each run, the test accuracy after the first epoch on a chunk minus that after the last epoch on the chunk before, "
    "mean over the changes: what is below zero was lost, for a while at least."
)
ENDS = "The tenths are the first and the last tenth of the tasks: what falls between them was lost, what stays was kept."
LOWER = "The smaller the better."
TEST = "p: two-sided paired t-test against vanilla over the seeds that both have, not corrected for the number of comparisons."


PUBLISHED = (
    "Beside ours: the published value, and ours minus the published, in brackets as a multiple of the published "
    "standard deviation. The paper has 5 seeds, for VGG-16 3."
)
COMMON = (SPREAD, INTERVAL, BEST, TEST, PUBLISHED, LOWER, MEDIAN, CHANGE, ENDS)
"""sentences under many tables, which a page says once"""


def of_methods(records: Sequence[Record], label: str) -> tuple[str, ...]:
    """Under a table of methods."""
    first = records[0].config
    plan = experiments().get(first.experiment)
    found = []
    if label:
        found.append(f"Departs from the protocol: {label}." if plan else f"Protocol: {label}.")
    elif plan:
        found.append(f"Protocol: {plan.about}.")
    if not label and any(first.experiment in column.published for column in COLUMNS.values()):
        found.append(PUBLISHED)
    metric = first.setting.metric
    found += [ENDS] if metric.online else []
    found += [LOWER] if metric.lower else []
    return (*found, SPREAD, INTERVAL, BEST, TEST, *_chosen(records), *_sizes(records), *_shared(records), *_failures(records))


def of_grid(records: Sequence[Record], rows: "Sequence[Row]") -> tuple[str, ...]:
    """Under a table of one method's hyper-parameters."""
    config = records[0].config
    if config.validation:
        how = (
            f"Selected on {100 * config.validation:g} % of the training data that was held out; "
            "the test accuracy stands beside it and decides nothing."
        )
    else:
        how = "Hyper-parameters other than those of the main table; choosing among them here is choosing on the test set."
    means = {row.title: row.cells[0].mean for row in rows if row.cells[0].mean is not None and not row.cells[0].note}
    lower = config.setting.metric.lower and not config.validation
    chosen = []
    if len(rows[0].cells) <= 2 and len(means) > 1:
        title = (min if lower else max)(means, key=lambda title: means[title])
        chosen = [f"{'Smallest' if lower else 'Largest'} mean: {title}."]
    return (how, *chosen, SPREAD, INTERVAL, *_shared(records), *_failures(records))


def missing(records: Sequence[Record], done: int, expected: int) -> str:
    """What a cell lacks; empty if all its seeds are done.

    >>> missing([], done=0, expected=5)
    'not run'
    """
    if done >= expected:
        return ""
    parts = [f"{done} of {expected} seeds"] if done else []
    for status, word in (("running", "running"), ("pending", "stopped")):
        epochs = [record.last for record in records if record.status == status and record.last]
        if epochs:
            furthest = max(epochs, key=lambda epoch: epoch.epoch)
            many = f"{len(epochs)} " if len(epochs) > 1 else ""
            parts.append(f"{many}{word}, epoch {furthest.epoch}/{furthest.total}")
        elif any(record.status == status for record in records) and status == "running":
            parts.append("starting")
    failed = sum(record.status == "failed" for record in records)
    if failed:
        parts.append("failed" if failed == 1 and not done else f"{failed} failed")
    return ", ".join(parts) or ("not started" if records else "not run")


def _chosen(records: Sequence[Record]) -> list[str]:
    """The hyper-parameters by where they come from, except for methods that have a row for each choice of them."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for config in {(r.config.line, r.config.column): r.config for r in records}.values():
        if config.hyper and len(standard(config.experiment, config.column, config.line)) < 2:
            places = found.setdefault(origin(config), {}).setdefault(config.title, {}).setdefault(config.hyper_text, [])
            places.append(column_title(config.column))
    several = len({record.config.column for record in records}) > 1
    return [
        f"Hyper-parameters, {source}: {'; '.join(f'{title} {_where(values, several)}' for title, values in methods.items())}."
        for source, methods in found.items()
    ]


def _sizes(records: Iterable[Record]) -> list[str]:
    """How much data the runs saw, as they recorded it: a dataset may be a part of the published one."""
    found = {r.config.column: r.facts for r in records if "train" in r.facts and "test" in r.facts}
    texts = [f"{column_title(column)} {facts['train']} and {facts['test']}" for column, facts in found.items()]
    return [f"Training and test images: {'; '.join(texts)}."] if texts else []


def _where(values: dict[str, list[str]], several: bool) -> str:
    return ", ".join(f"{text} on {listed(places)}" if several else text for text, places in values.items())


def _shared(records: Iterable[Record]) -> list[str]:
    """Whose time is not that of the whole run."""
    count = sum("taken_over" in record.facts for record in records)
    text = f"{plural(count, 'run')} took over the first stage of another that begins alike: its time is not counted again."
    return [text] if count else []


def _failures(records: Iterable[Record]) -> list[str]:
    failed = sum(record.status == "failed" for record in records)
    return [f"{plural(failed, 'run')} failed: `swr status --errors` shows why."] if failed else []
