// Shared by all parts, then the charts: drawn when they come near, when their fold opens, when the width or the scheme changes.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const json = element => JSON.parse(element.textContent);
const settings = json(document.getElementById("settings"));
const dark = matchMedia("(prefers-color-scheme: dark)");
const version = document.documentElement.dataset.version;
const kept = version ? JSON.parse(sessionStorage.watched || "null") : null; // what the reader did before the page was loaded again

// ---- charts ----

const figures = all("figure");
const views = new Map();
const hidden = new Map(Object.entries(kept?.hidden ?? {}).map(([id, lines]) => [id, new Set(lines)]));
// what was clicked away, by the figure's id: it stays so when the chart is drawn again, or the page is loaded again
let drawing = 0; // raised when everything is drawn again
let passes = 0;

/** Rows from columns, the reverse of what packed() does in Python. */
const rows = columns => {
  const names = Object.keys(columns);
  const values = names.map(name => Array.isArray(columns[name]) ? columns[name] : columns[name].at.map(i => columns[name].words[i]));
  return (values[0] || []).map((_, row) => Object.fromEntries(names.map((name, column) => [name, values[column][row]])));
};

const spec = figure => {
  const text = figure.querySelector("script").textContent;
  const found = JSON.parse(text, (key, value) => dark.matches && typeof value === "string" && settings.colours[value] || value);
  for (const name in found.datasets) found.datasets[name] = rows(found.datasets[name]);
  return found;
};

/** How many rows a legend has: the same estimate as that of marks.py for its columns. */
const legendRows = (titles, room) => {
  const widths = titles.map(title => 40 + 5.7 * Math.min(title.length, 42));
  for (let columns = titles.length; columns > 1; columns--) {
    const widest = [...Array(columns).keys()].map(column => Math.max(...widths.filter((_, index) => index % columns === column)));
    if (widest.reduce((sum, one) => sum + one, 0) <= room) return Math.ceil(titles.length / columns);
  }
  return titles.length;
};

/** The chart in the room that is kept for it: fixed, or for many small ones, as many side by side as there is room for. */
const fit = (chart, place) => {
  const width = place.clientWidth;
  if (chart.facet) {
    const count = chart.facet.sort.length;
    const rows = Math.ceil(count / Math.max(1, Math.min(4, Math.floor(width / 230))));
    chart.columns = Math.ceil(count / rows);
    chart.spec.width = Math.floor(width / chart.columns) - 64;
    const entries = chart.params.find(param => param.name === "shown")?.value.map(entry => entry.line) ?? [];
    place.style.height = `${181 * rows + 17 * legendRows(entries, width - 60) + 42}px`;
  } else if (typeof chart.height === "number") {
    chart.autosize = {type: "fit", contains: "padding"};
    chart.height = place.clientHeight;
  }
};

const escaped = text => String(text).replace(/[&<>"']/g, letter => `&#${letter.charCodeAt(0)};`);
const told = value => {
  const filled = Object.entries(value).filter(([, text]) => text !== "" && !/^(null|undefined|NaN)$/.test(text));
  return `<table>${filled.map(([name, text]) => `<tr><th>${escaped(name)}</th><td>${escaped(text)}</td></tr>`).join("")}</table>`;
};

const draw = async figure => {
  const turn = drawing;
  const place = figure.querySelector(".chart");
  const chart = spec(figure);
  const param = name => chart.params.find(param => param.name === name);
  const lines = param("shown")?.value.map(entry => entry.line) ?? [];
  param("room").value = place.clientWidth - 60;
  fit(chart, place);
  const gone = hidden.get(figure.id);
  if (gone && lines.length) param("shown").value = param("shown").value.filter(entry => !gone.has(entry.line));
  try {
    const result = await vegaEmbed(place, chart, {
      ast: true, // expressions are interpreted, not compiled: the page's policy forbids eval
      renderer: "svg",
      actions: false,
      defaultStyle: false,
      config: settings[dark.matches ? "dark" : "light"],
      tooltip: {disableDefaultStyle: true, formatTooltip: told},
    });
    if (turn !== drawing) return result.finalize();
    views.get(figure)?.finalize();
    views.set(figure, result);
    if (lines.length) {
      const mark = () => keys(figure, place, result.view, lines);
      mark();
      result.view.addSignalListener("shown", () => setTimeout(mark));
    }
  } catch (error) {
    place.textContent = `This chart cannot be drawn: ${error.message}`;
    place.classList.add("broken");
    console.error(error);
  }
};

/** The entries of a legend as buttons, for the keyboard. */
const keys = (figure, place, view, lines) => {
  const shown = new Set(view.data("shown_store").map(entry => entry.values[0]));
  hidden.set(figure.id, new Set(lines.filter(line => !shown.has(line))));
  for (const label of all(".role-legend-label text", place)) {
    const name = label.__data__.datum.value;
    if (!lines.includes(name)) continue; // another legend, of what a dash means
    const attributes = {role: "button", tabindex: 0, "aria-label": name, "aria-pressed": shown.has(name)};
    for (const key in attributes) label.setAttribute(key, attributes[key]);
  }
};

document.addEventListener("keydown", event => {
  if ((event.key === "Enter" || event.key === " ") && event.target.closest?.(".role-legend-label")) {
    event.preventDefault();
    event.target.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  }
});

/** What can be seen first, the rest when there is time; what is in a closed fold when it opens. */
const waiting = new Set();
const folded = figure => figure.closest("details:not([open])") !== null;
const next = async figure => !folded(figure) && waiting.delete(figure) && draw(figure);
const near = new IntersectionObserver(
  entries => entries.filter(entry => entry.isIntersecting).forEach(entry => next(entry.target)), {rootMargin: "400px"},
);
const idle = () => new Promise(resolve => window.requestIdleCallback ? requestIdleCallback(resolve, {timeout: 500}) : setTimeout(resolve, 20));
const reserve = some => some.filter(figure => figure.className === "wide" && !folded(figure)).forEach(figure => fit(spec(figure), figure.querySelector(".chart")));
const drawWaiting = async () => {
  const turn = ++passes;
  delete document.documentElement.dataset.drawn;
  for (const figure of figures) {
    await idle();
    if (turn !== passes) return;
    await next(figure);
  }
  document.documentElement.dataset.drawn = "all";
};
const drawAll = () => {
  drawing++;
  figures.forEach(figure => { waiting.add(figure); near.unobserve(figure); near.observe(figure); });
  reserve(figures);
  return drawWaiting();
};
document.addEventListener("toggle", event => {
  const inside = event.target.open ? all("figure", event.target) : [];
  reserve(inside);
  if (inside.length) drawWaiting();
}, true);
dark.addEventListener("change", drawAll);
addEventListener("DOMContentLoaded", drawAll);

let width = innerWidth;
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { if (width !== innerWidth) { width = innerWidth; drawAll(); } }, 250);
});

document.addEventListener("click", async event => {
  const button = event.target.closest(".save button");
  if (!button) return;
  const figure = button.closest("figure");
  const link = document.createElement("a");
  const {view} = views.get(figure);
  view.background(getComputedStyle(document.body).backgroundColor); // the words are as light as the page is dark
  link.href = await view.toImageURL(button.value, 2);
  view.background("transparent").run();
  link.download = `${figure.id.replace("chart-", "")}.${button.value}`;
  link.click();
});
