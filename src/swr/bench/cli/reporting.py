"""The commands `report`, `export` and `import`, and the page that is written after every experiment."""

import os
import sys
from pathlib import Path

from swr.bench.cli import options
from swr.bench.report.results import load, opened
from swr.bench.store import exchange
from swr.bench.words import plural
from swr.errors import OptionError, SWRError


class ReportError(SWRError):
    """There is nothing to report on, or the report cannot be written."""


def report(command: options.Report) -> int:
    """Write the page and the charts, or serve the page."""
    page = command.output or page_of(command.store)
    _check(command, page)
    if command.watch:
        return _watch(command, page)
    results = load(command.store)
    if not results.records:
        raise ReportError(f"{command.store} holds no runs: `swr run` adds some, `swr import` those of another store")
    from swr.bench.report import page as pages  # here, since charts take a second to import
    from swr.bench.report import summary
    from swr.bench.report.charts import chart_files

    try:
        if command.markdown is not None:
            summary.around(command.markdown)  # an unsuitable file is refused before anything is written
        pages.write(results, page)
        print(f"{page}: {plural(len(results.records), 'run')}, {page.stat().st_size / 1e6:.1f} MB")
        wanted: tuple[tuple[chart_files.Format, Path | None], ...]
        wanted = ("png", command.png), ("svg", command.svg), ("pdf", command.pdf)
        for kind, folder in wanted:
            if folder is not None:
                print(f"{folder}: {plural(len(chart_files.save(results, folder, kind)), 'chart')} as {kind.upper()}")
        if command.markdown is not None:
            figures = None
            if command.png is not None:
                figures = Path(os.path.relpath(command.png, command.markdown.parent)).as_posix()
            summary.write(results, command.markdown, figures)
            print(f"{command.markdown}: the same as Markdown")
    except OSError as error:
        raise ReportError(f"{error.filename or page} cannot be written ({error.strerror}): name another place") from error
    return 0


def export(command: options.Export) -> int:
    """A store as CSV files."""
    print(exchange.export(command.store, command.output, unfinished=command.unfinished, last=command.last))
    return 0


def import_(command: options.Import) -> int:
    """The runs of another store."""
    print(f"{command.source} -> {command.store}: {exchange.merge(command.source, command.store)}")
    return 0


def conclude(store: Path) -> None:
    """Write the page next to a store when its runs have ended, and print its name; results do not depend on its success."""
    page = page_of(store)
    try:
        results = load(store)
        if not any(record.status in ("done", "failed") for record in results.records):
            return
        from swr.bench.report import page as pages

        pages.write(results, page)
    except Exception as error:
        reason = " ".join(str(error).split())
        print(
            f"swr: the report {page} could not be written ({type(error).__name__}: {reason}); "
            f"the results are safe in {store}, and `swr report --store {store}` tries again",
            file=sys.stderr,
        )
    else:
        print(f"report: {page}", file=sys.stderr)


def page_of(store: Path) -> Path:
    """The page of a store: next to it.

    >>> page_of(Path("results/swr.sqlite")).name
    'swr.html'
    """
    page = store.with_suffix(".html")
    return page if page != store else store.with_name(f"{store.name}.html")


def _watch(command: options.Report, page: Path) -> int:
    """Serve the page; the store may be created later, but an existing one must be valid."""
    if command.store.exists():
        with opened(command.store):
            pass
    from swr.bench.report import watch

    try:
        watch.serve(command.store, page, command.port)
    except OSError as error:
        reason = f"port {command.port} of this machine cannot be used, or {page} not be written ({error.strerror})"
        raise ReportError(f"{reason}: name another with --port, 0 for any that is free, or --output") from error
    return 0


def _check(command: options.Report, page: Path) -> None:
    if page.resolve() == command.store.resolve():
        raise OptionError(f"the page {page} would replace the store: name another one with --output")
    for path, what, example in ((page, "page", "report.html"), (command.markdown, "Markdown", "results.md")):
        if path is None:
            continue
        if path.is_dir():
            raise OptionError(f"{path} is a folder: name a file for the {what}, such as {path / example}")
        if not path.parent.exists():
            raise OptionError(f"the folder {path.parent} of the {what} {path.name} does not exist: create it first")
    if not 0 <= command.port <= 65535:
        raise OptionError(f"--port must be from 0 to 65535, found {command.port}.")
