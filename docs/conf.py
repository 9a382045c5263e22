"""The documentation site.

python -m sphinx -W -b html docs docs/_build/html        then open docs/_build/html/index.html
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

import swr

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
import flowchart  # noqa: E402

project = "swr"
author = "The swr authors"
project_copyright = "2026, The swr authors"
version = release = swr.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
nitpicky = False  # torch's own types have no page here

html_theme = "furo"
html_title = f"swr {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}

myst_heading_anchors = 4  # the anchors that a repository gives to headings

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_mock_imports = [
    "lightning",
    "pytorch_lightning",
    "stable_baselines3",
    "torchrl",
    "transformers",
]  # the pages need none of the frameworks
napoleon_numpy_docstring = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def formulas_are_literal(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Indented lines of a docstring, before its sections, are a formula or a sketch: kept as they are written."""
    sections = next((i for i, line in enumerate(lines) if re.match(r"[A-Z]\w+:$", line)), len(lines))  # Args:, Returns:, …
    written: list[str] = []
    literal = False
    for line in lines[:sections]:
        if line:
            indented = line.startswith("    ")
            if indented and not literal and written and not written[-1]:
                written += ["::", ""]
                literal = True
            literal = literal and indented
        written.append(line)
    lines[:sections] = written


def folders_are_text(app: Sphinx, doctree: nodes.document) -> None:
    """A link to a folder of the repository works there; a site has no page for it, so the name alone remains."""
    for link in list(doctree.findall(nodes.Element)):
        target = link.get("reftarget") or ""
        if "://" not in target and target.startswith("../") and (DOCS / target).is_dir():
            link.replace_self(link.children)


def flowcharts_are_drawn(app: Sphinx, doctree: nodes.document) -> None:
    """Mermaid blocks become pictures."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", flowchart.svg(block.astext()), format="html"))


def setup(app: Sphinx) -> None:
    """What the pages need beyond the extensions."""
    app.connect("autodoc-process-docstring", formulas_are_literal, priority=100)  # before the sections are parsed
    app.connect("doctree-read", folders_are_text)
    app.connect("doctree-read", flowcharts_are_drawn)
