// All that the console does in a browser beyond plain HTML; without this file everything works but live updates and Copy.
//
// data-confirm="question"  on a button: asked before its form is sent.
// data-copy="id"           on a hidden button: shows it, and copies the text of the element with that id.
// data-stream="/path"      on any element: follows the server-sent events of that address while the page is open.
//   Events bring text, never HTML, and have three names:
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
const RETRY = 5000;

const TYPING = "input:focus, select:focus, textarea:focus, button:focus, summary:focus";
let leftOut = false;

async function refresh() {
  leftOut = false;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.redirected) return location.reload();
  if (!answer.ok) throw new Error(`the page was answered ${answer.status}`);
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
  let events;
  let due = 0;
  let wanted = false;
  async function refreshSoon() {
    wanted = true;
    if (due) return;
    due = 1;
    while (wanted) {
      wanted = false;
      let pause = PAUSE;
      await refresh().catch(() => { wanted = true; pause = RETRY; });
      await new Promise((done) => setTimeout(done, pause));
    }
    due = 0;
  }
  function open() {
    events = new EventSource(place.dataset.stream);
    events.addEventListener("refresh", refreshSoon);
    events.addEventListener("reload", () => { events.close(); location.reload(); });
    events.addEventListener("end", () => events.close());
    // A browser comes back by itself when a connection breaks, but not when it is answered by something else.
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return;
      refreshSoon();
      setTimeout(open, RETRY);
    });
  }
  open();
  document.addEventListener("focusout", () => { if (leftOut) refreshSoon(); });
  window.addEventListener("pagehide", () => events.close());
}

document.querySelectorAll("[data-stream]").forEach(follow);
