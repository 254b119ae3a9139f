// Keeps the panels up to date: asks for each again every few seconds, and never reloads the page.
"use strict";
const EVERY = 3000;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
let paused = false;

async function refresh(element) {
  const response = await fetch("/view/" + element.dataset.view, { credentials: "same-origin" });
  if (response.status === 401) { location.assign("/login"); return; }
  if (!response.ok) throw new Error(response.status);
  const text = await response.text();
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.explain : null;
  const [left, top] = [element.scrollLeft, element.scrollTop];
  element.innerHTML = text;
  element.scrollTo(left, top);
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
  const response = await fetch("/view/explain?id=" + encodeURIComponent(id), { credentials: "same-origin" });
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
document.addEventListener("click", (event) => {
  const id = event.target.dataset && event.target.dataset.explain;
  if (!id) return;
  document.getElementById("decision").value = id;
  explain(id);
  document.getElementById("h-explain").scrollIntoView();
});
setTimeout(round, EVERY);
