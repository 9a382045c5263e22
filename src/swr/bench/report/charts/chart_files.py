"""Charts as files: PNG, SVG or PDF, without a browser and without a network."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import altair
import vl_convert
from PIL import Image

from swr.bench.report.charts import palette
from swr.bench.report.charts.gallery import Chart, charts
from swr.bench.report.charts.marks import WIDTH
from swr.bench.report.results import Results

Format = Literal["png", "svg", "pdf"]

SHARPNESS = 2.0
"""pixels of a PNG for every one of the chart"""


def save(results: Results, folder: Path, format: Format) -> list[Path]:
    """Write one file per chart, named by its id.

    >>> save(Results([], {}), Path("charts"), "svg")
    []

    Args:
        folder: It is created.
    """
    drawn = charts(results)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in drawn:
        path = folder / f"{chart.id}.{format}"
        path.write_bytes(draw(chart, format))
        written.append(path)
    return written


def draw(chart: Chart, format: Format) -> bytes:
    """A chart on white, with its title, as the bytes of a file."""
    spec, version = _alone(chart), ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    match format:
        case "png":
            return _small(vl_convert.vegalite_to_png(spec, vl_version=version, scale=SHARPNESS))
        case "pdf":
            return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=version))
        case "svg":
            return str(vl_convert.vegalite_to_svg(spec, vl_version=version)).encode()


def _small(png: bytes) -> bytes:
    """The same picture with 256 colours, enough for lines and bands, in a sixth of the bytes."""
    with Image.open(BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    file = BytesIO()
    few.save(file, "PNG", optimize=True)
    return file.getvalue()


def _alone(chart: Chart) -> dict[str, Any]:
    """A specification for a chart outside a page."""
    spec = chart.spec()
    if spec.get("width") == "container":
        spec["width"] = WIDTH
    title = {"text": chart.title, "anchor": "start", "fontSize": 14, "fontWeight": 600, "color": "#1d2127", "offset": 14}
    return {**spec, "title": title, "padding": 16, "config": {**palette.theme(), "background": palette.LIGHT}}
