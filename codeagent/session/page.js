const search = document.querySelector("input");
const count = document.querySelector("output");
const entries = [...document.querySelector("main").children];
const folded = new Map(entries.map((entry) => [entry, entry.open]));

search.addEventListener("input", () => {
  const word = search.value.trim().toLowerCase();
  let found = 0;
  for (const entry of entries) {
    const hit = !word || entry.textContent.toLowerCase().includes(word);
    entry.hidden = !hit;
    found += hit;
    if (entry instanceof HTMLDetailsElement) entry.open = word ? hit : folded.get(entry);
  }
  count.textContent = word ? `${found} of ${entries.length}` : "";
});
