// A page that is being watched asks its server for the newest, loads it, and leaves everything as the reader had it.
if (!version) return;

const remember = () => {
  const sorted = heads.findIndex(head => head.getAttribute("aria-sort") !== "none");
  sessionStorage.watched = JSON.stringify({
    top: scrollY,
    hidden: Object.fromEntries([...hidden].map(([id, lines]) => [id, [...lines]])),
    open: all("details[id][open]").map(fold => fold.id),
    compared: choose ? [choose.first.selectedOptions[0].text, choose.second.selectedOptions[0].text] : null,
    words: form?.words.value ?? "",
    off: form ? all("[name=status]:not(:checked)", form).map(box => box.value) : [],
    sorted: sorted < 0 ? null : [sorted, heads[sorted].getAttribute("aria-sort")],
  });
};
delete sessionStorage.watched;
for (const id of kept?.open ?? []) document.getElementById(id)?.setAttribute("open", "");
if (kept?.compared && choose) {
  for (const [index, name] of ["first", "second"].entries()) {
    const option = [...choose[name].options].find(option => option.text === kept.compared[index]);
    if (option) option.selected = true;
  }
  compare();
}
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
