// All that the console does in a browser beyond plain HTML; without this file everything works but live updates and Copy.
//
// data-confirm="question"  on a button: asked before its form is sent.
// data-copy="id"           on a hidden button: shows it, and copies the text of the element with that id.
// data-stream="/path"      on any element: follows the server-sent events of that address while the page is open.
//   Events bring text, never HTML. What stands in the page of an event's name:
//     data-append="name"   gets an <li> (a <tr> of one cell in a table) with the text, at its end
//     data-replace="name"  gets the text in place of what it held
//   Three names are kept for the console itself:
//     refresh  the page is asked for again, and every element with data-live (and an id) is replaced by its new self;
//              so whatever changes is made by the server, from the same template as at first; <details> with an id stay
//              open, and what holds the cursor, or typed text, waits until that has gone
//     reload   the whole page is loaded anew, as when the session has ended
//     end      nothing more comes
"use strict";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  if (button && !window.confirm(button.dataset.confirm)) event.preventDefault();
});

// A second click would do everything twice, such as make two keys of which one is never seen.
const TWICE = 2000;
const sent = new WeakMap();
document.addEventListener("submit", (event) => {
  if (event.timeStamp - (sent.get(event.target) ?? -TWICE) < TWICE) event.preventDefault();
  else sent.set(event.target, event.timeStamp);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
});

function offerCopies(within) {
  if (!navigator.clipboard) return;
  for (const button of within.querySelectorAll("[data-copy]")) button.hidden = false;
}

offerCopies(document);

const PAUSE = 1000;

function append(place, text) {
  const item = document.createElement(place.matches("ol, ul") ? "li" : place.matches("tbody") ? "tr" : "div");
  (item.matches("tr") ? item.appendChild(document.createElement("td")) : item).textContent = text;
  place.appendChild(item);
}

const TYPING = "input:focus, select:focus, textarea:focus, button:focus, summary:focus";
let leftOut = false;

async function refresh() {
  leftOut = false;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.redirected) return location.reload();
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const place of document.querySelectorAll("[data-live][id]")) {
    const next = fresh.getElementById(place.id);
    if (!next) continue;
    // Where somebody is typing, or about to press a button, nothing is moved until they are done; nor is what they typed
    // lost when they look elsewhere.
    const typed = [...place.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
    if (typed || place.querySelector(TYPING)) {
      leftOut = true;
      continue;
    }
    for (const old of place.querySelectorAll("details[id]")) {
      const opened = fresh.getElementById(old.id);
      if (opened) opened.open = old.open;
    }
    place.replaceWith(next);
    offerCopies(next);
  }
}

function follow(place) {
  const events = new EventSource(place.dataset.stream);
  let due = 0;
  let wanted = false;
  async function refreshSoon() {
    wanted = true;
    if (due) return;
    due = 1;
    while (wanted) {
      wanted = false;
      await refresh().catch(() => {});
      await new Promise((done) => setTimeout(done, PAUSE));
    }
    due = 0;
  }
  events.addEventListener("refresh", refreshSoon);
  document.addEventListener("focusout", () => { if (leftOut) refreshSoon(); });
  events.addEventListener("reload", () => { events.close(); location.reload(); });
  events.addEventListener("end", () => events.close());
  window.addEventListener("pagehide", () => events.close());
  const names = new Set();
  for (const element of document.querySelectorAll("[data-append], [data-replace]")) {
    names.add(element.dataset.append || element.dataset.replace);
  }
  for (const name of names) {
    events.addEventListener(name, (event) => {
      for (const place of document.querySelectorAll("[data-append]")) {
        if (place.dataset.append === name) append(place, event.data);
      }
      for (const place of document.querySelectorAll("[data-replace]")) {
        if (place.dataset.replace === name) place.textContent = event.data;
      }
    });
  }
}

document.querySelectorAll("[data-stream]").forEach(follow);
