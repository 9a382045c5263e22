"""The real page in a real browser: Debian's Chromium, driven by Playwright."""

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from stores import SCRIPT, curve, hostile_method, make

from swr.bench import experiments
from swr.bench.report import page as pages
from swr.bench.report import watch
from swr.bench.report.overview import places
from swr.bench.report.results import load
from swr.bench.report.statistics import paired
from swr.bench.report.tables import tables
from swr.bench.store import Provenance, Store, exchange

ROOT = Path(__file__).parents[3]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'soft-weight-rescaling[dev]'")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(html, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    pages.save(html, path)
    return path.as_uri()


class Reader:
    """Opens pages, waits until all charts are drawn, and minds what goes wrong and what is asked for."""

    def __init__(self, browser):
        self.browser, self.problems, self.requests = browser, [], []

    def open(self, address, width=1440, scheme="light"):
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.on("console", lambda message: self.problems.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
        return page

    def check(self):
        """Nothing went wrong, and nothing left the machine."""
        assert self.problems == []
        assert self.requests
        assert [url for url in self.requests if not re.match(r"file:|data:|blob:|http://127\.0\.0\.1:", url)] == []


@pytest.fixture
def open_page(browser):
    reader = Reader(browser)
    pages = []
    yield lambda *args, **more: pages.append(reader.open(*args, **more)) or pages[-1]
    for page in pages:
        page.context.close()
    reader.check()


@pytest.fixture(scope="module")
def shared(browser, address):
    reader = Reader(browser)
    page = reader.open(address)
    yield reader, page
    page.context.close()


@pytest.fixture
def page(shared):
    """One page for many tests, each of which leaves it as it found it."""
    reader, found = shared
    yield found
    reader.check()


UNFOLD = "e => { for (let f = e.closest('details'); f; f = f.parentElement.closest('details')) f.open = true; }"


def figure(page, name):
    """A chart, with the folds around it open."""
    found = page.locator(f"figure[id^=chart-{name}]").first
    if not found.is_visible():
        found.evaluate(UNFOLD)
        found.locator("svg").wait_for()
    return found


def opened(page):
    """All folds open, and what is in them drawn."""
    page.evaluate("document.querySelectorAll('details.fold').forEach(fold => { fold.open = true; })")
    page.locator("figure:not(:has(svg))").first.wait_for(state="detached", timeout=120_000)
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)


def lines(found):
    return found.locator(".mark-line.role-mark path").count()


def methods(page):
    return page.locator(".runs tbody:not([hidden]) tr:first-child td:nth-child(4)").all_inner_texts()


def test_every_chart_is_drawn_and_has_marks(page):
    opened(page)
    figures = page.locator("figure")
    assert figures.count() == 14
    marks = figures.evaluate_all(
        "figures => figures.map(f => f.querySelectorAll('.mark-line.role-mark path, .mark-rect.role-mark path').length)"
    )
    assert min(marks) >= 1
    assert page.locator(".broken").count() == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("warm-start-accuracy-cifar", 7), ("continual-full-accuracy", 2), ("lr-decay-accuracy", 5), ("lr-decay-norms", 15)],
)
def test_a_chart_has_one_line_for_each_method(page, name, expected):
    assert lines(figure(page, name)) == expected


def test_a_heat_map_has_a_cell_for_each_pair(page):
    assert figure(page, "generalization-cifar100").locator(".mark-rect.role-mark path").count() == 25


@pytest.mark.parametrize("name", ["warm-start-accuracy-cifar", "lr-decay-norms", "generalization-mnist", "proportionality"])
def test_a_click_on_the_legend_hides_a_method_and_shows_it_again(page, name):
    found = figure(page, name)
    entries = found.locator(".role-legend-label text[role=button]")
    pressed, before = found.locator("[aria-pressed=true]").count(), lines(found)
    assert pressed == entries.count() >= 2
    entries.nth(1).click()
    found.locator("[aria-pressed=false]").wait_for(state="attached")
    assert entries.nth(1).get_attribute("aria-pressed") == "false"
    assert found.locator("[aria-pressed=true]").count() == pressed - 1
    assert lines(found) < before
    entries.nth(1).press("Enter")
    found.locator("[aria-pressed=false]").wait_for(state="detached")
    assert lines(found) == before


def test_hover_gives_the_numbers_of_all_methods(page):
    found = figure(page, "lr-decay-accuracy")
    found.scroll_into_view_if_needed()
    box = found.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100)
    page.mouse.move(box["x"] + box["width"] * 0.61, box["y"] + 102)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    words = tooltip.inner_text()
    assert re.search(r"SWR \+ re-init\s+0\.\d{4} ± 0\.\d{4}, n = 2", words)
    assert words.count("±") == 5
    assert re.search(r"epoch\s+1\d", words)
    page.mouse.move(0, 0)


def test_columns_of_runs_sort_both_ways_by_mouse_and_keyboard(page, results):
    head = page.locator(".runs th", has_text="test accuracy")
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    read = ".runs tbody tr:first-child td:nth-child(7)"
    values = [text for text in page.locator(read).all_inner_texts() if text]
    assert values == sorted(values, key=float)
    assert len(values) == len(results.records) - 1
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    texts = page.locator(read).all_inner_texts()
    assert texts[:-1] == sorted(values, key=float, reverse=True)
    assert texts[-1] == ""
    page.locator(".runs th", has_text="status").locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    statuses = page.locator(".runs tbody tr:first-child td:first-child").all_inner_texts()
    assert statuses == sorted(statuses)


def test_runs_are_filtered_by_words_and_by_status(page, results):
    page.fill("[name=words]", "SWR balancedness seed 1")
    wanted = [r for r in results.records if r.config.experiment == "balancedness" and r.config.method == "swr"]
    assert len(methods(page)) == 1 < len(wanted)
    page.fill("[name=words]", "")
    assert len(methods(page)) == len(results.records)
    page.uncheck("[name=status][value=done]")
    page.uncheck("[name=status][value=waiting]")
    assert len(methods(page)) == 1
    assert page.locator("output").inner_text() == f"1 of {len(results.records)} runs"
    page.locator("tr.error summary").click()
    assert "Traceback" in page.locator("tr.error pre").inner_text()
    page.check("[name=status][value=done]")
    page.check("[name=status][value=waiting]")


def test_a_table_is_copied_in_each_format(page):
    for kind, start in (("Markdown", "**"), ("LaTeX", "\\begin{table}"), ("CSV", "experiment,")):
        page.locator(".copy").first.get_by_role("button", name=kind).click()
        page.locator("#said", has_text=f"{kind} copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        assert start in text
        assert "SWR" in text
    page.locator(".results .all summary").first.click()
    page.locator(".results td [data-copy]").first.click()
    page.locator("#said", has_text="Command copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("swr run ")


def test_without_a_clipboard_the_text_is_shown_selected(page):
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')); }")
    page.locator(".copy").first.get_by_role("button", name="CSV").click()
    area = page.locator("textarea.copied")
    area.wait_for()
    assert area.input_value().startswith("experiment,")
    assert area.evaluate("area => area.selectionEnd - area.selectionStart === area.value.length")
    page.evaluate("() => { delete navigator.clipboard.writeText; document.querySelector('.copied').remove(); }")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_chart_can_be_saved(page, kind):
    with page.expect_download() as download:
        figure(page, "proportionality").locator(f".save [value={kind}]").click()
    assert download.value.suggested_filename.endswith(f".{kind}")
    assert download.value.path().stat().st_size > 1000


CONTRASTS = """
() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const own = e => [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  const texts = [...document.querySelectorAll("body *:not(svg *):not(script)")].filter(e => own(e) && e.checkVisibility());
  const found = texts.map(e => {
    const [low, high] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => a - b);
    return [(high + 0.05) / (low + 0.05), e.tagName + "." + e.className];
  });
  const plain = [...document.querySelectorAll("svg text")].filter(e =>
    !e.closest(".mark-text.role-mark") && e.getAttribute("aria-pressed") !== "false");
  const labels = plain.map(e => {
    const [low, high] = [light(parse(getComputedStyle(e).fill)), light(behind(e.closest("figure")))].sort((a, b) => a - b);
    return [(high + 0.05) / (low + 0.05), e.textContent];
  });
  return [...found, ...labels];
}
"""


@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_is_readable_at_every_width_in_both_schemes(open_page, address, width):
    page = open_page(address, width=width)
    opened(page)
    found = figure(page, "lr-decay-accuracy")
    found.locator(".role-legend-label text[role=button]").nth(1).click()
    found.locator("[aria-pressed=false]").wait_for(state="attached")
    colours = []
    for scheme, background in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 24, 29)")):
        if scheme == "dark":
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector("html:not([data-drawn])", state="attached")
            page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for part in ("figure svg", ".results .bar", ".notes", "figcaption", ".filter", ".words p", ".key", ".choose", ".hint"):
            boxes = page.locator(part).evaluate_all("found => found.map(e => e.getBoundingClientRect().right)")
            assert max(boxes) <= width, part
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 800
        assert [entry for entry in contrasts if entry[0] < 4.5] == []
        assert lines(found) == 4, "what was hidden stays hidden when the colours change"
        colours.append(found.locator(".mark-line.role-mark path").first.get_attribute("stroke"))
    assert colours == ["#222222", "#ededed"]


SHADES = """
() => [...document.querySelectorAll(".matrix td[class*=up], .matrix td[class*=down]")].map(cell => {
  const style = getComputedStyle(cell);
  return [cell.className.trim(), style.backgroundColor, cell.innerText.replace(/\\s+/g, " ")];
})
"""


SHIFTS = """
() => {
  window.moved = 0;
  const add = list => list.getEntries().forEach(entry => { window.moved += entry.value; });
  new PerformanceObserver(add).observe({type: "layout-shift", buffered: true});
}
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The page of the results that come with the project."""
    folder = tmp_path_factory.mktemp("published")
    exchange.merge(ROOT / "results" / "paper", folder / "swr.sqlite")
    pages.write(load(folder / "swr.sqlite"), folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "most"), [(1440, 12_000), (390, 16_000)])
def test_the_stored_runs_fit_a_page_that_is_read_to_its_end(open_page, published, width, most, scheme):
    page = open_page(published, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollHeight") < most
    assert page.evaluate("document.documentElement.scrollWidth") == width
    with (ROOT / "results" / "paper" / "runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert page.locator(".runs tbody").count() == len(runs) > 180
    box = page.locator(".matrix").bounding_box()
    assert box["y"] < 900
    if width == 1440:
        assert box["y"] + box["height"] < 900, "the matrix is on the first screen"
    tried = {("generalization", "cifar100-cnnbnpad")}  # with another column's λ: in the tables of what was tried
    columns = {(run["experiment"], run["column"]) for run in runs}
    assert tried < columns
    assert page.locator(".matrix thead tr:nth-child(2) th").count() == len(columns - tried)
    shades = page.evaluate(SHADES)
    assert len(shades) > 10
    assert all(re.search(r"[+−]\d+(\.\d)? sd", text) for _, _, text in shades), "no cell says by its colour alone what it says"
    colours = {name.split()[-1]: colour for name, colour, _ in shades}
    assert len(set(colours.values())) == len(colours) >= 5
    assert [entry for entry in page.evaluate(CONTRASTS) if entry[0] < 4.5] == []


def test_nothing_moves_while_the_charts_are_drawn(browser, published):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(published, wait_until="commit")
    page.wait_for_selector("#all-runs", state="attached")
    page.evaluate(SHIFTS)
    place = "[...document.querySelectorAll('section')].map(e => Math.round(e.getBoundingClientRect().top + scrollY))"
    before = page.evaluate(place)
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
    assert page.evaluate(place) == before
    assert page.evaluate("window.moved") < 0.01
    context.close()


def test_hovering_over_a_cell_tells_everything_about_it(page):
    cell = page.locator(".matrix td a").filter(has_text="sd").first
    page.mouse.move(0, 0)
    cell.hover()
    hover = page.locator("#hover")
    hover.wait_for()
    words = hover.inner_text()
    for name in ("method", "column", "value", "n", "95 % interval", "vs vanilla", "p", "command"):
        assert re.search(rf"^{name}\s", words, flags=re.M), name
    assert "swr run " in words
    box = hover.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1440
    page.mouse.move(0, 0)
    hover.wait_for(state="hidden")
    cell.focus()
    hover.wait_for()
    page.keyboard.press("Escape")
    hover.wait_for(state="hidden")
    cell.blur()


def test_the_words_of_a_cell_stay_when_the_page_scrolls_to_it_and_end_when_it_leaves(page):
    cell = page.locator(".matrix td a").filter(has_text="sd").first
    page.mouse.move(0, 0)
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'; scrollTo(0, document.body.scrollHeight)")
    cell.focus()  # scrolls, and the event of that comes after the one of the focus
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    hover = page.locator("#hover")
    assert hover.is_visible()
    assert abs(hover.bounding_box()["x"] - cell.bounding_box()["x"]) < 900
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    hover.wait_for(state="hidden")
    cell.blur()
    page.evaluate("scrollTo(0, 0); document.documentElement.style.scrollBehavior = ''")


def test_a_click_on_a_cell_opens_the_fold_with_its_numbers(page):
    link = page.locator(".matrix td a").last
    row = page.locator(f"#{link.get_attribute('data-cell')}")
    assert not row.is_visible()
    link.click()
    assert row.is_visible()
    assert "found" in row.get_attribute("class")
    assert row.locator("code").inner_text().startswith("swr run ")
    page.evaluate("document.querySelectorAll('details.all').forEach(fold => { fold.open = false; })")
    page.evaluate("scrollTo(0, 0)")


def test_what_is_in_a_fold_is_drawn_in_its_place_when_it_opens(open_page, address):
    page = open_page(address)
    fold = page.locator("#experiment-warm-start .fold", has_text="Weight norms").first
    assert fold.locator("figure svg").count() == 0
    fold.locator("> summary").click()
    height = fold.bounding_box()["height"]
    fold.locator("figure svg").nth(1).wait_for()
    page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
    assert fold.bounding_box()["height"] == height
    assert fold.locator("svg text", has_text="conv 2 · 3.weight").count() >= 1


def test_a_table_that_is_wider_than_its_frame_says_so_until_its_end(open_page, address):
    page = open_page(address, width=390)
    frame = page.locator("#overview .frame").first
    hint = frame.locator(".hint")
    assert hint.is_visible()
    assert "Scroll sideways" in hint.inner_text()
    frame.locator(".scroll").evaluate("scroll => { scroll.scrollLeft = scroll.scrollWidth; }")
    hint.wait_for(state="hidden")
    assert frame.locator("tbody th").first.bounding_box()["x"] < 40, "the methods stay in sight"
    wide = open_page(address, width=1440)
    assert not wide.locator("#experiment-lr-decay .frame .hint").first.is_visible()


def test_two_methods_are_compared_by_choosing_them(page, results):
    rows = page.locator(".compared tbody tr")
    page.select_option(".choose [name=first]", label="SWR")
    page.select_option(".choose [name=second]", label="vanilla")
    texts = rows.all_inner_texts()
    made = places(tables(results.records, results.epochs))
    shared = [one for one in made if {("swr", "SWR"), ("vanilla", "vanilla")} <= set(one.cells)]
    compared = [paired(one.cells["swr", "SWR"].values, one.cells["vanilla", "vanilla"].values) for one in shared]
    known = [one for one in compared if one is not None]
    assert len(texts) == len(known) >= 4
    for text, one in zip(texts, known, strict=True):
        assert f"{one.difference:+.4f}".replace("-", "−") in text
    assert rows.locator("circle").count() == sum(one.pairs for one in known if one.interval)
    page.select_option(".choose [name=first]", label="vanilla")
    page.select_option(".choose [name=second]", label="SWR")
    assert f"{-known[0].difference:+.4f}".replace("-", "−") in rows.first.inner_text()
    page.select_option(".choose [name=second]", label="vanilla")
    assert rows.all_inner_texts() == ["Choose two different methods."]


def test_hostile_names_are_shown_and_not_run(open_page, tmp_path, monkeypatch):
    hostile_method(monkeypatch)
    make(tmp_path / "swr.sqlite", runs=4, epochs=10, hostile=True)
    pages.write(load(tmp_path / "swr.sqlite"), tmp_path / "report.html")
    page = open_page((tmp_path / "report.html").as_uri(), width=390)
    assert page.title() == "Soft Weight Rescaling: report"
    opened(page)
    assert page.locator(".results th", has_text=SCRIPT).count() >= 1
    assert page.locator("svg text", has_text="<script>").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert SCRIPT in page.locator("tr.error pre").text_content()


def test_a_watched_page_follows_its_store_and_keeps_what_the_reader_did(open_page, tmp_path):
    here = Provenance({}, None, "host")
    runs = experiments.expand("generalization", columns=["digits-mlp"], methods=["vanilla", "swr"], seeds=1, epochs_scale=0.1)
    runs.append(replace(runs[0], seed=1))
    path = tmp_path / "swr.sqlite"
    with Store(path) as store:
        store.add(runs[:2], here)
        for run in runs[:2]:
            store.record(run.identity, curve(run))
            store.finish(run.identity, {})
    watcher = watch.Watcher(path, tmp_path / "report.html")
    watcher.update()
    with watch.Server((watch.HOST, 0), watch.Handler) as server:
        server.watcher = watcher
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            page = open_page(f"http://{watch.HOST}:{server.server_port}/")
            page.fill("[name=words]", "seed")
            page.locator(".runs th", has_text="seed").locator("button").click()
            chart = figure(page, "generalization-accuracy")
            chart.locator(".role-legend-label text[role=button]").last.click()
            chart.locator("[aria-pressed=false]").wait_for(state="attached")
            page.locator(".fold > summary", has_text="Weight norms").click()
            page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
            with Store(path) as store:
                store.add(runs[-1:], here)
            assert watcher.update()
            page.locator("output", has_text="3 of 3 runs").wait_for(timeout=30_000)
            page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=120_000)
            assert lines(chart) == 1, "what was hidden in the legend stays hidden"
            assert chart.locator("[aria-pressed=false]").get_attribute("aria-label") == "SWR"
            assert page.locator(".fold[open] figure svg").count() == 1
            assert page.input_value("[name=words]") == "seed"
            assert page.locator(".runs th", has_text="seed").get_attribute("aria-sort") == "ascending"
            page.close()  # before the server that it asks
        finally:
            server.shutdown()
            thread.join()
            watcher.close()
