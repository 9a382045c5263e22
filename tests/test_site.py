"""The documentation site builds without a warning, opens from disk, and every link in it leads somewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


class Page(HTMLParser):
    """The links, files and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        self.links += [found[key] for key in ("href", "src") if found.get(key)]


def broken(site):
    """Every link to a file or an anchor that is not there, and everything that is loaded from elsewhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    wrong, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("https://", "http://", "mailto:", "data:")):
                continue
            file, anchor = urldefrag(link)
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            checked += 1
            if not target.is_file():
                wrong.append(f"{path.relative_to(site)}: there is no {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(site)}: {link} has no such anchor")
    return wrong, checked


def build(source, target):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", source, target]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install 'soft-weight-rescaling[docs]'")
    folder = tmp_path_factory.mktemp("site").resolve()
    done = build(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_link_of_the_site_leads_somewhere(site):
    wrong, checked = broken(site)
    assert wrong == []
    assert checked > 1000


def test_every_page_of_the_documentation_is_in_the_site(site):
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()


def test_the_api_pages_have_docstrings_and_types(site):
    page = (site / "api" / "rescaling.html").read_text()
    assert 'id="swr.SoftWeightRescaling.attach"' in page
    assert "how far a norm may grow" in page  # from Args:
    assert re.search(r"<strong>growth</strong> \(<em>.*float", page)  # from the signature
    assert "min(1, ρ n_l / ‖W_l‖)" in page  # a formula, kept as it is written


def test_nothing_is_loaded_from_elsewhere(site):
    loaded = re.compile(r'<(?:script[^>]*src|link[^>]*rel="stylesheet"[^>]*href|img[^>]*src)="(https?:)?//')
    assert [path for path in site.rglob("*.html") if loaded.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[gone](gone.html)", "there is no gone.html"),
        ("[x](other.html#nowhere)", "no such anchor"),
        ("[ok](other.html#here)", ""),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path, line, problem):
    text, target = re.fullmatch(r"\[(.+)\]\((.+)\)", line).groups()
    (tmp_path / "index.html").write_text(f'<a href="{target}">{text}</a>')
    (tmp_path / "other.html").write_text('<p id="here">')
    wrong, checked = broken(tmp_path.resolve())
    assert checked == 1
    assert problem in wrong[0] if problem else not wrong


def test_a_page_in_no_list_fails_the_build(tmp_path):
    pytest.importorskip("myst_parser")
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\nsource_suffix = {".md": "markdown"}\n')
    (tmp_path / "index.md").write_text("# Index\n")
    (tmp_path / "lonely.md").write_text("# Lonely\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "lonely.md: WARNING: document isn't included in any toctree" in done.stderr


def test_a_flowchart_has_every_box_and_arrow(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import flowchart

    block = re.search(r"```mermaid\n(.*?)```", (DOCS / "architecture.md").read_text(), flags=re.S)[1]
    drawn = flowchart.svg(block)
    assert drawn.count("<line ") == block.count("-->")
    assert sorted(re.findall(r">([^<]+)</text>", drawn)) == sorted(re.findall(r'"(.+)"', block))
    assert flowchart.svg('flowchart BT\n a["A"]\n b["B"]\n a --> b') != flowchart.svg(
        'flowchart BT\n a["A"]\n b["B"]\n b --> a'
    )
    with pytest.raises(ValueError, match="found 'a ==> b'"):
        flowchart.svg("flowchart BT\na ==> b")


def test_the_numbers_of_the_choosing_page_stand_in_the_pages_it_names():
    rows = [line for line in (DOCS / "choosing.md").read_text().splitlines() if line.startswith("| ")]
    checked = 0
    for row in rows:
        for number in re.findall(r"(?<!\d)\.\d{3,}", row):
            source = re.search(r"\((\w+\.md)\)", row)[1]
            assert number in (DOCS / source).read_text(), (number, row)
            checked += 1
    assert checked > 15
