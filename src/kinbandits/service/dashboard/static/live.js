// Keeps the panels up to date: asks for each again every few seconds, and never reloads the page.
"use strict";
const EVERY = 3000;
const root = document.body.dataset.root;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
let paused = false;
let range = new URLSearchParams(location.search).get("range") || "";
let column = -1;
let falling = true;

// The table of arms: those that are looked for, in the order of a column.
function arrange() {
  const table = document.getElementById("arms");
  if (!table) return;
  const wanted = document.getElementById("find-arm").value.toLowerCase();
  const rows = Array.from(table.tBodies[0].rows);
  for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
  if (column < 0) return;
  const key = (row) => {
    const text = row.cells[column].textContent.trim();
    const value = parseFloat(text.replaceAll(",", ""));
    return column === 0 || Number.isNaN(value) ? text : value;
  };
  rows.sort((a, b) => { const [x, y] = [key(a), key(b)]; return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1); });
  table.tBodies[0].append(...rows);
}

async function refresh(element) {
  const query = range ? "?range=" + range : "";
  const response = await fetch(root + "/view/" + element.dataset.view + query, { credentials: "same-origin" });
  if (response.status === 401) { location.assign(root + "/login"); return; }
  if (!response.ok) throw new Error(response.status);
  const text = await response.text();
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.explain : null;
  const [left, top] = [element.scrollLeft, element.scrollTop];
  element.innerHTML = text;
  element.scrollTo(left, top);
  if (element.dataset.view === "arms") arrange();
  if (held) {
    const again = element.querySelector('[data-explain="' + held + '"]');
    if (again) again.focus();
  }
}

async function round() {
  if (!paused && !document.hidden) {
    try {
      for (const element of document.querySelectorAll("[data-view]")) await refresh(element);
      live.textContent = "updated " + new Date().toLocaleTimeString();
      live.className = "";
    } catch (error) {
      live.textContent = "the service cannot be reached";
      live.className = "bad";
    }
  }
  setTimeout(round, EVERY);
}

async function explain(id) {
  const response = await fetch(root + "/view/explain?id=" + encodeURIComponent(id), { credentials: "same-origin" });
  document.getElementById("explanation").innerHTML = await response.text();
}

pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Resume" : "Pause";
});
document.getElementById("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  explain(document.getElementById("decision").value);
});
document.getElementById("find-arm").addEventListener("input", arrange);
document.addEventListener("click", (event) => {
  const picked = event.target.closest && event.target.closest("[data-range]");
  if (picked) {
    event.preventDefault();
    range = picked.dataset.range;
    history.replaceState(null, "", root + "/?range=" + range);
    refresh(document.querySelector('[data-view="working"]'));
    return;
  }
  const head = event.target.closest && event.target.closest("#arms thead th");
  if (head) {
    falling = column === head.cellIndex ? !falling : true;
    column = head.cellIndex;
    arrange();
    return;
  }
  const id = event.target.dataset && event.target.dataset.explain;
  if (!id) return;
  document.getElementById("decision").value = id;
  explain(id);
  document.getElementById("h-explain").scrollIntoView();
});
setTimeout(round, EVERY);
