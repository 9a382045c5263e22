"""The command `data`: the datasets on this machine."""

from __future__ import annotations

import sys

from swr.bench import data
from swr.bench.cli import arguments, options
from swr.bench.words import aligned, wrapped
from swr.errors import OptionError


def datasets(action: options.DataList | options.DataDownload | options.DataCheck) -> int:
    """List, download or check; the exit code."""
    match action:
        case options.DataList(folder):
            print(aligned([["dataset", "here", "where"], *(_row(data.status(name, folder)) for name in data.known())]))
            note = "folder:PATH is also accepted: your own images in PATH/train/CLASS/* and PATH/test/CLASS/*"
            print(f"\n{wrapped(note)}")
            return 0
        case options.DataDownload(names, folder):
            chosen = arguments.names(names)
            if not chosen:
                raise OptionError(f"name what to download: {', '.join(n for n, s in data.SOURCES.items() if s.archives)}.")
            for name in chosen:
                found = data.download(name, folder)
                print(f"{name}: {_verdict(found)}, in {found.files[0].parent}")
            return 0
        case options.DataCheck(names, folder):
            chosen = arguments.names(names)
            if chosen is None:
                here = [data.status(name, folder) for name in data.known()]
                chosen = [status.name for status in here if status.files or status.problem is None]
            if not chosen:
                raise OptionError(f"name what to check, or leave it out for all that is here: {', '.join(data.known())}.")
            problems = 0
            for name in chosen:
                found = data.check(name, folder)
                problems += found.problem is not None
                print(f"{name}: {found.problem or _verdict(found)}", file=sys.stderr if found.problem else sys.stdout)
            return 1 if problems else 0


def _row(status: data.Status) -> list[str]:
    if status.problem is not None and status.files:
        return [status.name, "no", status.problem]
    if status.problem is not None:
        archives = status.source.archives if status.source else ()
        size = sum(archive.size for archive in archives)
        return [status.name, "no", f"`swr data download {status.name}` fetches {size / 1e6:.0f} MB"]
    where = str(status.files[0].parent) if status.files else "comes with scikit-learn"
    return [status.name, "yes", where]


def _verdict(status: data.Status) -> str:
    if status.official is None:
        return "valid"
    return "complete and as published" if status.official else "valid, but not the published file"
