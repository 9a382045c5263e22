"""Ray clusters for tests: several raylets on this machine, each with a cache folder of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'soft-weight-rescaling[ray]'")

STORE = 80 * 2**20  # bytes of each object store; Ray's least is 75 MB


class Machines:
    """A cluster whose nodes have names: the head, and those that were added."""

    def __init__(self, folder: Path, cpus: int) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        with chdir(folder):  # what only the test's folder has must not be found by the nodes
            self.cluster = Cluster(initialize_head=True, head_node_args=self._arguments("head", cpus), shutdown_at_exit=False)
        self.nodes = {"head": self.cluster.head_node}

    @property
    def address(self) -> str:
        return self.cluster.address

    def cache(self, name: str) -> Path:
        return self.folder / name / "cache"

    def add(self, name: str, cpus: int = 1) -> str:
        """Ray's id of a new node."""
        with chdir(self.folder):
            self.nodes[name] = self.cluster.add_node(**self._arguments(name, cpus))
        return self.nodes[name].node_id

    def remove(self, name: str) -> None:
        """As when a machine loses power."""
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def _arguments(self, name: str, cpus: int) -> dict[str, Any]:
        variables = {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "SWR_CACHE": str(self.cache(name)),
            "SWR_DATA": str(self.folder / name / "data"),
            "OMP_NUM_THREADS": "1",
            "RAY_worker_niceness": "0",  # by default workers yield to every other process of the machine
        }
        self.cache(name).mkdir(parents=True)
        return {
            "num_cpus": cpus,
            "num_gpus": 0,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "env_vars": variables,
        }


@contextmanager
def machines(folder: Path, cpus: int = 1) -> Iterator[Machines]:
    """A cluster of one node, to which others can be added."""
    folder.mkdir(exist_ok=True)
    before = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Machines(folder, cpus)
    try:
        yield found
    finally:
        ray.shutdown()
        found.cluster.shutdown()
        if before is None:
            del os.environ["RAY_USAGE_STATS_ENABLED"]
        else:
            os.environ["RAY_USAGE_STATS_ENABLED"] = before
