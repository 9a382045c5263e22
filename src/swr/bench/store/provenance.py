"""Where a result comes from: versions, the commit of the code, the machine."""

import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import swr

PACKAGES = ("torch", "numpy", "scikit-learn", "pillow")


@dataclass(frozen=True)
class Provenance:
    """What is stored with every run."""

    versions: dict[str, str]
    commit: str | None
    """the commit of swr's own tree, else of the current folder's; ``+`` marks uncommitted changes"""
    host: str


def provenance_of(device: str) -> Provenance:
    """The provenance of runs that this process starts on ``device``."""
    versions = {"swr": swr.__version__, "python": platform.python_version(), "device": device}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    source = Path(swr.__file__).parent
    tracked = _git(source, "ls-files", "--error-unmatch", "__init__.py") is not None
    return Provenance(versions, _commit(source if tracked else Path.cwd()), platform.node() or "unknown")


def _commit(folder: Path) -> str | None:
    commit = _git(folder, "rev-parse", "HEAD")
    return None if commit is None else commit + ("+" if _git(folder, "status", "--porcelain", "-uno") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
