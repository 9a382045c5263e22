"""Where a result comes from."""

import dataclasses

from swr.bench.store import provenance_of


def test_the_provenance_names_versions_and_host():
    found = provenance_of("cpu")
    assert {"swr", "torch", "python", "device"} <= set(found.versions)
    assert found.host
    assert dataclasses.is_dataclass(found)
