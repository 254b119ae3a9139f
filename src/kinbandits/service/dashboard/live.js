// Asks for the page again every few seconds and puts its <main> in place, unless somebody types in it.
"use strict";
const EVERY = 3000;
const live = document.getElementById("live");
const pause = document.getElementById("pause");
let paused = false;

async function round() {
  const main = document.querySelector("main");
  const busy = main.contains(document.activeElement) && ["INPUT", "SELECT"].includes(document.activeElement.tagName);
  if (!paused && !busy && !document.hidden) {
    try {
      const response = await fetch(location.origin + location.pathname + location.search);
      if (!response.ok) throw new Error(response.status);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const tops = Array.from(main.querySelectorAll(".scroll"), (e) => [e.scrollLeft, e.scrollTop]);
      const focus = document.activeElement.getAttribute("href");
      main.replaceChildren(...page.querySelector("main").childNodes);
      main.querySelectorAll(".scroll").forEach((e, i) => e.scrollTo(...(tops[i] || [0, 0])));
      if (focus) main.querySelector('a[href="' + CSS.escape(focus) + '"]')?.focus({ preventScroll: true });
      live.textContent = "updated " + new Date().toLocaleTimeString();
      live.className = "";
    } catch (error) {
      live.textContent = "the service cannot be reached";
      live.className = "bad";
    }
  }
  setTimeout(round, EVERY);
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Resume" : "Pause";
});
setTimeout(round, EVERY);
