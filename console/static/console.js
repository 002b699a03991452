// Script of the console. Without it everything works except live updates, confirmations, Copy and relative times.
//
// <time datetime title>    a time with a tooltip: shows how long ago it was, or how long until it comes; with
//                          data-countdown what is left, to the second.
// data-zone-of="id"        on a hidden element with a button: offers the zone of this device for the select with that id.
// data-confirm="question"  on a button: a confirmation before its form is sent.
// data-copy="id"           on a hidden button: shows it, and copies the text of the element with that id.
// data-stream="/path"      on any element: follows the server-sent events of that address while the page is open.
//   Events bring text, never HTML, and have three names:
//     refresh  fetches the page again and patches every element that has data-live and an id into its new version, so
//              that the server renders all updates from one template; focus, selection, scroll positions, open <details>
//              and typed text stay, and an element in use that is gone is removed later
//     reload   loads the whole page again, as when the session has ended
//     end      no more events follow
// data-address="/path"     on any element: becomes the page's address, so that updates and reloads show the same again.
// What is put into the page later, here or by another script, gets the same by the event `fresh` on it (it bubbles).

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  if (button && !window.confirm(button.dataset.confirm)) event.preventDefault();
});

// A double click would send a form twice, such as create two keys of which one is never shown.
const RESEND_PAUSE = 2000;
const sent = new WeakMap();
document.addEventListener("submit", (event) => {
  if (event.timeStamp - (sent.get(event.target) ?? -RESEND_PAUSE) < RESEND_PAUSE) return event.preventDefault();
  sent.set(event.target, event.timeStamp);
  if (event.submitter) setTimeout(() => showBusy(event.submitter, !event.defaultPrevented));
});

function showBusy(button, sending) {
  if (!sending) return;
  button.setAttribute("aria-busy", "true");
  setTimeout(() => button.removeAttribute("aria-busy"), 10 * RESEND_PAUSE);
}

// A page that is returned to by Back can send its forms again.
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const copied = await navigator.clipboard.writeText(text).then(() => true, () => false);
  // A label that says what the button copies would hide from screen readers that it did not.
  if (!copied) button.removeAttribute("aria-label");
  button.textContent = copied ? "Copied" : "Select the text and copy it";
});

function offerCopies(within) {
  if (!navigator.clipboard) return;
  for (const button of within.querySelectorAll("[data-copy]")) button.hidden = false;
}

// Each unit with its seconds, and from how many seconds on it is used: 89 days say more than two months.
const UNITS = [["year", 31557600, 63115200], ["month", 2629800, 8640000], ["day", 86400, 86400], ["hour", 3600, 3600],
  ["minute", 60, 60], ["second", 1, 1]];
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function untilThen(then) {
  const seconds = (Date.parse(then) - Date.now()) / 1000;
  const [unit, length] = UNITS.find(([, , least]) => Math.abs(seconds) >= least) ?? UNITS.at(-1);
  return Math.abs(seconds) < 5 ? "now" : words.format(Math.trunc(seconds / length), unit);
}

// What is left, as 23:59:12.
function countedDown(then) {
  const left = Math.max(0, Math.floor((Date.parse(then) - Date.now()) / 1000));
  return [left / 3600, (left / 60) % 60, left % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
}

function showAges(within) {
  for (const time of within.querySelectorAll("time[title]")) {
    time.dataset.exact = time.title;
    const text = "countdown" in time.dataset ? countedDown(time.dateTime) : untilThen(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

function offerZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const offer of document.querySelectorAll("[data-zone-of]")) {
    const select = document.getElementById(offer.dataset.zoneOf);
    const option = [...select.options].find((each) => each.value === zone);
    if (!option || option.selected) continue;
    offer.hidden = false;
    offer.querySelector("button").textContent = option.text;
    offer.querySelector("button").addEventListener("click", () => { option.selected = true; offer.hidden = true; });
  }
}

function keepAddress(within) {
  const place = within.querySelector("[data-address]") ?? within;
  if (place.dataset?.address) history.replaceState(history.state, "", place.dataset.address);
}

document.addEventListener("fresh", (event) => {
  keepAddress(event.target);
  offerCopies(event.target);
  showAges(event.target);
});

keepAddress(document);
offerCopies(document);
showAges(document);
offerZone();
setInterval(() => showAges(document), document.querySelector("[data-countdown]") ? 1000 : 10000);

const PAUSE = 1000;
const RETRY = 5000;

let postponed = false;

// Attributes that people and scripts change on the page, and that no answer of the server knows of.
const KEPT = { DETAILS: ["open"], DIALOG: ["open"], BUTTON: ["hidden", "aria-busy"], TIME: ["data-exact"] };

// What tells an element apart from its siblings; a row is told apart by its first link.
function nameOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const named = node.id || node.hasAttribute("href") || node.hasAttribute("name") ? node : node.querySelector("[id], [href]");
  return `${node.nodeName} ${named?.id || named?.getAttribute("href") || named?.getAttribute("name")}`;
}

function isTyped(field) {
  return field.type !== "hidden" && (field.value !== field.defaultValue || field.checked !== field.defaultChecked);
}

// Somebody types here or is about to press a button: it goes when they have left it.
function isInUse(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return false;
  return node.contains(document.activeElement) || [node, ...node.querySelectorAll("input, textarea")].some((each) =>
    each.matches("input, textarea") && isTyped(each));
}

// Texts that scripts fill in.
function isFilledIn(old, next) {
  if (old.nodeName === "TIME") return old.dateTime === next.dateTime && old.title === next.title;
  return old.nodeName === "OUTPUT" || old.hasAttribute("data-copy");
}

// Of a text of which the end grows and the beginning may go, as of a log, what is selected stays so.
function patchText(old, next) {
  const gone = old.data.indexOf(next.data.slice(0, 200));
  if (old.data && gone >= 0 && next.data.startsWith(old.data.slice(gone))) {
    const kept = old.data.length - gone;
    if (gone) old.deleteData(0, gone);
    old.appendData(next.data.slice(kept));
  } else {
    old.data = next.data;
  }
}

// Makes an element like another one that is of the server's answer. What is equal is left alone, so that the focus, what
// is selected, scroll positions, and what somebody opened or typed stay.
function patch(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) return patchText(old, next);
  if (old.matches("textarea, select") || (old.nodeName === "INPUT" && isTyped(old))) return;
  const filled = isFilledIn(old, next);
  const kept = KEPT[old.nodeName] ?? [];
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !kept.includes(name)) old.setAttribute(name, value);
  }
  if (!filled) patchChildren(old, next);
}

function patchChildren(old, next) {
  const unused = [...old.childNodes];
  const found = new Map();
  function pair(alike) {
    for (const child of next.childNodes) {
      if (found.has(child)) continue;
      const at = unused.findIndex((each) => alike(each, child));
      if (at >= 0) found.set(child, unused.splice(at, 1)[0]);
    }
  }
  const names = new Map([...old.childNodes, ...next.childNodes].map((node) => [node, nameOf(node)]));
  pair((each, child) => names.get(each) === names.get(child));
  pair((each, child) => each.nodeName === child.nodeName && !each.id && !child.id && !isInUse(each));
  for (const child of unused) {
    if (isInUse(child)) postponed = true;
    else child.remove();
  }
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    while (at && unused.includes(at)) at = at.nextSibling;
    const here = found.get(child) ?? child;
    if (here === at) at = at.nextSibling;
    else moveBefore(old, here, at);
    if (here !== child) patch(here, child);
  }
}

// Moving an element takes the focus from it where the browser cannot move it as it is.
function moveBefore(parent, node, at) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, at);
  if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

async function refresh() {
  postponed = false;
  const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Refresh": "true" } });
  if (answer.redirected) return location.reload();
  if (!answer.ok) throw new Error(`the page was answered ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const place of document.querySelectorAll("[data-live][id]")) {
    const next = fresh.getElementById(place.id);
    if (!next) continue;
    patch(place, next);
    place.dispatchEvent(new Event("fresh", { bubbles: true }));
  }
}

// One refresh at a time for the whole page, and a second between two.
let refreshing = false;
let wanted = false;

async function refreshSoon() {
  wanted = true;
  if (refreshing) return;
  refreshing = true;
  while (wanted) {
    wanted = false;
    let pause = PAUSE;
    await refresh().catch(() => { wanted = true; pause = RETRY; });
    await new Promise((done) => setTimeout(done, pause));
  }
  refreshing = false;
}

function follow(place) {
  let events;
  function open() {
    events = new EventSource(place.dataset.stream);
    events.addEventListener("refresh", refreshSoon);
    events.addEventListener("reload", () => { events.close(); location.reload(); });
    events.addEventListener("end", () => events.close());
    // EventSource reconnects when a connection breaks, but not after a response of another media type.
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return;
      refreshSoon();
      setTimeout(open, RETRY);
    });
  }
  open();
  window.addEventListener("pagehide", () => events.close());
}

document.addEventListener("focusout", () => { if (postponed) refreshSoon(); });
document.querySelectorAll("[data-stream]").forEach(follow);
