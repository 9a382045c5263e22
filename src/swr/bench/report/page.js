// What the page does: draws the charts, copies tables, sorts and filters the runs, reloads itself while it is being watched.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const json = element => JSON.parse(element.textContent);
  const settings = json(document.getElementById("settings"));
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // ---- charts ----

  const figures = all("figure");
  const views = new Map();
  const hidden = new Map(); // what was clicked away, by figure: it stays so when the chart is drawn again
  let drawing = 0;

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

  /** Many small charts: as many side by side as there is room for, in rows of the same length. */
  const fit = (chart, width) => {
    const count = chart.facet.sort.length;
    const rows = Math.ceil(count / Math.max(1, Math.min(4, Math.floor(width / 230))));
    chart.columns = Math.ceil(count / rows);
    chart.spec.width = Math.floor(width / chart.columns) - 64;
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
    if (chart.facet) fit(chart, place.clientWidth);
    if (hidden.has(figure)) param("shown").value = param("shown").value.filter(entry => !hidden.get(figure).has(entry.line));
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
    hidden.set(figure, new Set(lines.filter(line => !shown.has(line))));
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

  /** What can be seen first, the rest when there is time: a page that is printed has everything. */
  const waiting = new Set();
  const next = async figure => waiting.delete(figure) && draw(figure);
  const near = new IntersectionObserver(
    entries => entries.filter(entry => entry.isIntersecting).forEach(entry => next(entry.target)), {rootMargin: "400px"},
  );
  const idle = () => new Promise(resolve => window.requestIdleCallback ? requestIdleCallback(resolve, {timeout: 500}) : setTimeout(resolve, 20));
  const drawAll = async () => {
    const turn = ++drawing;
    delete document.documentElement.dataset.drawn;
    figures.forEach(figure => waiting.add(figure));
    figures.forEach(figure => { near.unobserve(figure); near.observe(figure); });
    for (const figure of figures) {
      await idle();
      if (turn !== drawing) return;
      await next(figure);
    }
    document.documentElement.dataset.drawn = "all";
  };
  drawAll();
  dark.addEventListener("change", drawAll);

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

  // ---- copying ----

  const said = document.getElementById("said");
  const say = text => { said.textContent = text; setTimeout(() => { said.textContent = ""; }, 2500); };

  const copy = async (text, what, button) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} copied`);
    } catch { // no clipboard here, or not allowed: the text is shown, selected
      const area = Object.assign(document.createElement("textarea"), {className: "copied", value: text, readOnly: true});
      const place = button.closest(".bar") || button;
      if (place.nextElementSibling?.className === "copied") place.nextElementSibling.remove();
      place.after(area);
      area.focus();
      area.select();
      say("Press Ctrl+C to copy");
    }
  };

  document.addEventListener("click", event => {
    const button = event.target.closest(".copy button, [data-copy]");
    if (!button) return;
    const texts = button.parentElement.querySelector("script");
    if (texts) copy(json(texts)[button.textContent], button.textContent, button);
    else copy(button.dataset.copy, "Command", button);
  });

  // ---- runs ----

  const table = document.querySelector(".runs");
  const form = document.querySelector(".filter");
  const runs = table ? [...table.tBodies] : [];
  const heads = table ? all("th", table) : [];
  const texts = new Map(runs.map(run => [run, `${run.dataset.text} ${run.dataset.status}`.toLowerCase()]));

  const key = (run, column) => {
    const cell = run.rows[0].cells[column];
    return cell.dataset.key ?? cell.textContent.trim();
  };

  const sort = (column, direction) => {
    const up = direction === "descending" ? -1 : 1;
    const numeric = runs[0].rows[0].cells[column].className === "number";
    const compare = (a, b) => {
      if (a === b) return 0;
      if (a === "" || b === "") return a === "" ? up : -up; // what is empty comes last either way
      return numeric ? a - b : a.localeCompare(b);
    };
    const sorted = runs.map(run => [key(run, column), run]).sort(([a], [b]) => up * compare(a, b));
    table.append(...sorted.map(([, run]) => run));
    heads.forEach((head, index) => head.setAttribute("aria-sort", index === column ? direction : "none"));
  };

  /** Short words must be there as such, so that "seed 1" is not 10 and "l2" is not l2-init; of longer ones a part is enough. */
  const has = (text, word) => word.length < 3 ? ` ${text} `.includes(` ${word} `) : text.includes(word);

  const filter = () => {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(all("[name=status]:checked", form).map(box => box.value));
    let count = 0;
    for (const run of runs) {
      run.hidden = !(wanted.has(run.dataset.status) && words.every(word => has(texts.get(run), word)));
      count += !run.hidden;
    }
    form.querySelector("output").textContent = `${count} of ${runs.length} runs`;
  };

  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    sort(column, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
  }));
  form?.addEventListener("input", filter);
  form?.addEventListener("submit", event => event.preventDefault());

  // ---- watching ----

  const version = document.documentElement.dataset.version;
  if (!version) return;

  const remember = () => {
    const sorted = heads.findIndex(head => head.getAttribute("aria-sort") !== "none");
    sessionStorage.watched = JSON.stringify({
      top: scrollY,
      words: form?.words.value ?? "",
      off: form ? all("[name=status]:not(:checked)", form).map(box => box.value) : [],
      sorted: sorted < 0 ? null : [sorted, heads[sorted].getAttribute("aria-sort")],
    });
  };
  const kept = JSON.parse(sessionStorage.watched || "null");
  delete sessionStorage.watched;
  if (kept && form) {
    form.words.value = kept.words;
    all("[name=status]", form).forEach(box => { box.checked = !kept.off.includes(box.value); });
    filter();
    if (kept.sorted) sort(...kept.sorted);
  }
  if (kept) scrollTo({top: kept.top, behavior: "instant"});

  const ask = async () => {
    try {
      const newest = await (await fetch("version", {cache: "no-store"})).text();
      if (said.dataset.lost) { delete said.dataset.lost; said.textContent = ""; }
      if (newest !== version) { remember(); location.reload(); return; }
    } catch {
      said.dataset.lost = "yes";
      said.textContent = "The report is no longer being updated";
    }
    setTimeout(ask, 2000);
  };
  setTimeout(ask, 2000);
})();
