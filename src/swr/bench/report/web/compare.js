// Two methods compared: the differences are computed already, the one that is chosen is shown, or its negative.
const choose = document.querySelector(".choose");
const known = choose ? json(document.querySelector("#compare > script")) : null;

const signed = (value, digits = 4) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
const element = (name, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  return made;
};

/** Zero, the interval and a mark for every seed, on an axis of its own. */
const strip = pair => {
  const ends = [...Object.values(pair.seeds), ...(pair.interval ?? [])].map(Math.abs);
  const reach = Math.max(...ends, 1e-9);
  const at = value => 120 + 112 * value / reach;
  const svg = element("svg", {viewBox: "0 0 240 20", width: 240, height: 20, "aria-hidden": "true"});
  svg.append(element("line", {x1: 120, x2: 120, y1: 1, y2: 19, class: "zero"}));
  if (pair.interval) svg.append(element("line", {x1: at(pair.interval[0]), x2: at(pair.interval[1]), y1: 10, y2: 10, class: "interval"}));
  for (const [seed, value] of Object.entries(pair.seeds)) {
    const mark = element("circle", {cx: at(value), cy: 10, r: 3.5});
    const name = element("title", {});
    name.textContent = `seed ${seed}: ${signed(value)}`;
    mark.append(name);
    svg.append(mark);
  }
  return svg;
};

const verdict = (pair, place) => {
  if (!pair.interval) return "one seed: not known";
  if (!pair.sign) return "within noise";
  return (pair.sign > 0) !== place.lower ? "better" : "worse";
};

const turned = pair => ({
  ...pair,
  difference: -pair.difference,
  interval: pair.interval && [-pair.interval[1], -pair.interval[0]],
  sign: -pair.sign,
  seeds: Object.fromEntries(Object.entries(pair.seeds).map(([seed, value]) => [seed, -value])),
});

const compare = () => {
  const [first, second] = [Number(choose.first.value), Number(choose.second.value)];
  const found = known.pairs[`${Math.min(first, second)} ${Math.max(first, second)}`] ?? [];
  const body = document.querySelector(".compared tbody");
  body.replaceChildren();
  for (const pair of first < second ? found : found.map(turned)) {
    const place = known.places[pair.place];
    const row = body.insertRow();
    const texts = [
      place.title, place.column, signed(pair.difference), pair.interval ? pair.interval.map(end => signed(end)).join(" to ") : "",
      Object.keys(pair.seeds).length, pair.p === null ? "" : pair.p < 1e-4 ? "< 0.0001" : String(Number(pair.p.toPrecision(2))),
      verdict(pair, place),
    ];
    for (const text of texts) row.insertCell().textContent = text;
    row.insertCell().append(...(pair.interval ? [strip(pair)] : [])); // one mark has no scale
  }
  if (!body.rows.length) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = 8;
    cell.textContent = first === second ? "Choose two different methods." : "These two have no column and seed in common.";
  }
};
choose?.addEventListener("input", compare);
choose?.addEventListener("submit", event => event.preventDefault());
if (choose) compare();
