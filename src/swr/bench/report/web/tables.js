// Tables: copying, what belongs to a cell on hover, hints that there is more to the side, the list of runs.

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

// ---- what belongs to a cell ----

const hover = document.getElementById("hover");

/** The row of a fold that has everything about a cell, as a small table. */
const about = row => {
  const heads = all("thead th", row.closest("table")).map(head => head.textContent);
  const lines = [...row.cells].map((cell, index) => [heads[index], (cell.querySelector("code") ?? cell).textContent.trim()]);
  const body = document.createElement("table");
  for (const [name, text] of lines.filter(([, text]) => text)) {
    const line = body.insertRow();
    line.appendChild(Object.assign(document.createElement("th"), {textContent: name}));
    line.insertCell().textContent = text;
  }
  return body;
};

let subject = null;  // the cell that the words belong to, while they are shown

/** Beside its cell; out of sight where the cell is. */
const place = () => {
  const cell = subject.getBoundingClientRect();
  const {offsetWidth: width, offsetHeight: height} = hover;
  const below = cell.bottom + 6 + height < innerHeight;
  hover.style.left = `${Math.max(8, Math.min(cell.left, document.documentElement.clientWidth - width - 8))}px`;
  hover.style.top = `${below ? cell.bottom + 6 : Math.max(8, cell.top - height - 6)}px`;
  hover.style.visibility = cell.bottom < 0 || cell.top > innerHeight ? "hidden" : "";
};
const hush = () => { hover.hidden = true; subject = null; };
const tell = link => {
  const row = document.getElementById(link.dataset.cell);
  if (!row) return;
  subject = link;
  hover.replaceChildren(about(row));
  hover.hidden = false;
  place();
};
const linked = event => event.target.closest?.("[data-cell]");
for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, event => { const link = linked(event); if (link) tell(link); });
document.addEventListener("pointerover", event => { if (!linked(event) && subject !== document.activeElement) hush(); });
document.addEventListener("focusout", hush);
// The page scrolls to a cell that gets the focus: its words go along.
addEventListener("scroll", () => { if (subject) place(); }, {passive: true, capture: true});
document.addEventListener("keydown", event => { if (event.key === "Escape") hush(); });

/** A link to a cell opens the folds around its row. */
const reveal = id => {
  const row = id ? document.getElementById(id) : null;
  for (let fold = row?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  return row;
};
document.addEventListener("click", event => {
  const link = linked(event);
  if (!link) return;
  event.preventDefault();
  hush();
  const row = reveal(link.dataset.cell);
  row?.scrollIntoView({block: "center", behavior: "instant"});
  all("tr.found").forEach(other => other.classList.remove("found"));
  row?.classList.add("found");
});
reveal(decodeURIComponent(location.hash.slice(1)));

// ---- more to the side ----

const frames = all(".frame");
const hint = frame => {
  const scroll = frame.querySelector(".scroll");
  frame.querySelector(".hint").hidden = scroll.scrollLeft + scroll.clientWidth >= scroll.scrollWidth - 1;
};
const sizes = new ResizeObserver(entries => entries.forEach(entry => hint(entry.target.closest(".frame"))));
for (const frame of frames) {
  const scroll = frame.querySelector(".scroll");
  sizes.observe(scroll);
  sizes.observe(scroll.firstElementChild);
  scroll.addEventListener("scroll", () => hint(frame), {passive: true});
}

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
