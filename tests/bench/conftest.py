"""Synthetic stores are of use to tests beside those of the report."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "report"))
