// Script of the console. Without it everything works except confirmations, Copy and relative times; live.js updates pages.
//
// <time datetime title>    a time with a tooltip: shows how long ago it was, or how long until it comes; with
//                          data-countdown what is left, to the second.
// data-zone-of="id"        on a hidden element with a button: offers the zone of this device for the select with that id.
// data-confirm="question"  on a button: a confirmation before its form is sent. The event `ask` on any button, with the
//                          question as its detail, asks likewise.
// data-copy="id"           on a hidden button: shows it, and copies the text of the element with that id.
// data-address="/path"     on any element: becomes the page's address, so that updates and reloads show the same again.
// What is put into the page later, here or by another script, gets the same by the event `fresh` on it (it bubbles).

let agreed = null;

function addButton(to, label, kind, press) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = kind;
  button.textContent = label;
  button.addEventListener("click", press);
  to.append(button);
}

// Going back has the focus, so that a key pressed too often does no harm.
function ask(button, question) {
  const dialog = document.createElement("dialog");
  dialog.className = "question";
  dialog.setAttribute("role", "alertdialog");
  dialog.setAttribute("aria-labelledby", "question");
  const text = document.createElement("p");
  text.id = "question";
  text.textContent = question;
  const row = document.createElement("div");
  row.className = "row";
  addButton(row, "Go back", "quiet", () => dialog.close());
  addButton(row, button.textContent, button.className, () => {
    dialog.close();
    agreed = button;
    button.click();
  });
  dialog.append(text, row);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-confirm]");
  const asks = button && button !== agreed;
  agreed = null;
  // The browser says first what is missing in the form.
  if (!asks || (button.form && !button.formNoValidate && !button.form.checkValidity())) return;
  event.preventDefault();
  ask(button, button.dataset.confirm);
});
document.addEventListener("ask", (event) => ask(event.target, event.detail));

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
  // What lasts 90 days ends in 90 days, also a minute after its beginning.
  const count = seconds > 0 ? Math.round(seconds / length) : Math.trunc(seconds / length);
  return Math.abs(seconds) < 5 ? "now" : words.format(count, unit);
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

// After the sign-out, the next person must not see the pages that palette.js kept for the one before.
if (!document.body.dataset.person) {
  for (const key of Object.keys(localStorage)) if (key.startsWith("recent:")) localStorage.removeItem(key);
}
keepAddress(document);
offerCopies(document);
showAges(document);
offerZone();
setInterval(() => showAges(document), document.querySelector("[data-countdown]") ? 1000 : 10000);
