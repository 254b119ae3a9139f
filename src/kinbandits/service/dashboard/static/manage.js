// Arms and tokens. A session may only read, so each change is sent with the admin token that is typed in here.
"use strict";
const field = (id) => document.getElementById(id);

function say(text, bad) {
  field("managed").textContent = text;
  field("managed").className = bad ? "bad" : "note";
}

async function call(method, path, body) {
  const headers = { Authorization: "Bearer " + field("admin").value.trim() };
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(document.body.dataset.root + path, { method, headers, body: body && JSON.stringify(body), credentials: "omit" });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

async function list() {
  const tokens = await call("GET", "/v1/tokens");
  field("tokens").tBodies[0].replaceChildren(...tokens.map((token) => {
    const row = document.createElement("tr");
    const cells = [token.name, token.roles.join(", "), new Date(1000 * token.created).toLocaleString(), token.revoked ? "revoked" : ""];
    for (const text of cells) row.insertCell().textContent = text;
    if (!token.revoked) {
      const button = document.createElement("button");
      button.textContent = "Revoke";
      button.type = "button";
      button.setAttribute("aria-label", "Revoke " + token.name);
      button.addEventListener("click", () => attempt(async () => {
        if (!confirm("Revoke " + token.name + "? Whoever uses it is refused from now on.")) return;
        await call("DELETE", "/v1/tokens/" + encodeURIComponent(token.name));
        await list();
        say(token.name + " is revoked.");
      }));
      row.cells[3].append(button);
    }
    return row;
  }));
}

async function attempt(work) {
  try { await work(); } catch (error) { say(error.message, true); }
}

function on(id, work) {
  field(id).addEventListener("submit", (event) => { event.preventDefault(); attempt(work); });
}

on("show-tokens", async () => { await list(); say(""); });
on("add-arm", async () => {
  const { arm } = await call("POST", "/v1/arms", { arm: field("new-arm").value });
  field("add-arm").reset();
  say(arm + " is a candidate now.");
});
on("retire-arm", async () => {
  const arm = field("old-arm").value;
  if (!confirm("Retire " + arm + "? It is never chosen again.")) return;
  await call("DELETE", "/v1/arms/" + encodeURIComponent(arm));
  say(arm + " is retired.");
});
on("add-token", async () => {
  const roles = Array.from(document.querySelectorAll("#add-token [name=role]:checked"), (box) => box.value);
  const made = await call("POST", "/v1/tokens", { name: field("token-name").value, roles });
  await list();
  say("The token of " + made.name + ", shown this once: " + made.token);
});
