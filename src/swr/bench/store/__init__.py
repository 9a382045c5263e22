"""The store: one SQLite file with everything that was run, its exchange as CSV files, and where each result comes from."""

from swr.bench.store.database import Store, StoreError
from swr.bench.store.provenance import Provenance, provenance_of
from swr.bench.store.schema import Record, Status

__all__ = ["Provenance", "Record", "Status", "Store", "StoreError", "provenance_of"]
