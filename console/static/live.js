// Script that keeps an open page current, without disturbing who uses it. Without it pages are as old as their loading.
//
// data-stream="/path"      on any element: follows the server-sent events of that address while the page is open.
//   Events bring text, never HTML, and have three names:
//     refresh  fetches the page again and patches every element that has data-live and an id into its new version, so
//              that the server renders all updates from one template
//     reload   loads the whole page again, as when the session has ended; a page with typed text stays
//     end      no more events follow
// data-pulse="/path"       on <body>: a small page that is asked for at intervals, for what every page shows; data-person
//                          says whose page it is, and data-zone the time zone of times.
// data-state="completed"   on an element with an id, data-one="Step check" and data-many="steps": #news says once it has
//                          another state, as "Step check completed" or "2 steps completed"; an empty state is not said.
// data-in-place            on an element of a page of which scripts change the address without loading it.
// The event `refresh` on the document does what an event of a stream does, at once.
import { FIELDS, isTyped, patch } from "./patch.js";

// Milliseconds: between two updates, at least, and between two pulses; in the background; after failures.
const LEAST = 1000;
const PULSE = 15000;
const LEAST_HIDDEN = 10000;
const PULSE_HIDDEN = 60000;
const RETRY = 3000;
const MOST_RETRY = 60000;
const ANSWER = 30000;
// Failures in a row before a page says that it is not current.
const FAILURES = 2;
// How long a selection or a form under way holds updates back, and the least time between two sentences.
const SELECTING = 30000;
const SENDING = 20000;
const SENTENCE = 5000;
const SIGNING_IN = ["/sign-in", "/password", "/passkeys"];

const { pulse, person, zone } = document.body.dataset;
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
const live = document.querySelector("[data-live][id]") !== null && document.querySelector("[data-stream], [data-in-place]") !== null;

let wanted = false;
let busy = false;
let postponed = false;
let failures = 0;
let signedOut = false;
let askedAt = performance.now();
let currentAt = Date.now();
let selectedAt = 0;
let sendingUntil = 0;
let timer = 0;

function want() {
  wanted = live;
  plan();
}

function pauseNow() {
  if (failures) return Math.min(MOST_RETRY, RETRY * 2 ** (failures - 1));
  if (document.hidden) return wanted ? LEAST_HIDDEN : PULSE_HIDDEN;
  return wanted ? LEAST : PULSE;
}

// Does at once what is due: timers of pages in the background are late.
function plan() {
  clearTimeout(timer);
  if (busy || !(wanted || pulse)) return;
  const left = Math.max(askedAt + pauseNow(), sendingUntil) - performance.now();
  if (left <= 0) ask();
  else timer = setTimeout(plan, left + 1);
}

async function ask() {
  busy = true;
  const whole = wanted;
  wanted = false;
  askedAt = performance.now();
  try {
    await update(whole ? location.href : pulse);
    if (!signedOut) currentAt = Date.now();
    failures = signedOut ? failures + 1 : 0;
  } catch {
    failures += 1;
  }
  // What was missed is made up for by the first update that works.
  if (failures) wanted = live;
  busy = false;
  showState();
  plan();
}

async function update(address) {
  const headers = { Accept: "text/html", "X-Refresh": "automatic" };
  const answer = await fetch(address, { headers, signal: AbortSignal.timeout(ANSWER) });
  if (answer.redirected) {
    signedOut = SIGNING_IN.includes(new URL(answer.url).pathname);
    if (!signedOut) reload();
    return;
  }
  if (!answer.ok) throw new Error(`the page was answered ${answer.status}`);
  // Somebody has gone on meanwhile: what the new address has is asked for next.
  if (address !== pulse && address !== location.href) return want();
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (fresh.body.dataset.person !== person) return location.reload();
  if (signedOut) renewTokens(fresh.querySelector("input[name=csrf]").value);
  signedOut = false;
  for (const place of document.querySelectorAll("[data-live][id]")) {
    const next = fresh.getElementById(place.id);
    if (!next) continue;
    if (isHeld(place)) postponed = true;
    else if (patch(place, next)) postponed = true;
    place.dispatchEvent(new Event("fresh", { bubbles: true }));
  }
  showTitle(address === pulse ? document.title : fresh.title);
  report();
}

function isAnythingTyped() {
  return [...document.querySelectorAll(FIELDS)].some(isTyped);
}

function reload() {
  if (!isAnythingTyped()) location.reload();
}

// The forms of the page belong to the new session of the same person.
function renewTokens(token) {
  for (const field of document.querySelectorAll("input[name=csrf]")) field.value = token;
}

// Somebody selects text there, or has sent a form.
function isHeld(place) {
  const now = performance.now();
  if (now < sendingUntil) return true;
  const selection = getSelection();
  if (selection.isCollapsed || now - selectedAt > SELECTING || !selection.getRangeAt(0).intersectsNode(place)) return false;
  setTimeout(release, SELECTING);
  return true;
}

function release() {
  if (!postponed) return;
  postponed = false;
  want();
}

const banner = document.getElementById("not-current");

function showState() {
  const stale = failures >= FAILURES || signedOut;
  const text = signedOut
    ? "You are signed out. What you have typed stays here: "
    : `Not current since ${clock.format(currentAt)}. The console tries again by itself.`;
  if (banner.hidden === !stale && (!stale || banner.firstChild.data === text)) return;
  banner.hidden = !stale;
  banner.textContent = stale ? text : "";
  if (signedOut) {
    const link = document.createElement("a");
    link.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
    link.target = "_blank";
    link.textContent = "sign in again in another tab";
    banner.append(link, ".");
  }
  say(stale ? banner.textContent : "Current again.");
}

// The title, after the number of approvals that wait.
function showTitle(text) {
  const count = approvalsWaiting();
  const title = (count ? `(${count}) ` : "") + text.replace(/^\(\d+\) /, "");
  if (document.title !== title) document.title = title;
}

const news = document.getElementById("news");
const told = new Map();
let waited = approvalsWaiting();
let sayAt = 0;
let sayTimer = 0;

function approvalsWaiting() {
  return Number(document.getElementById("waiting")?.dataset.count ?? 0);
}

function say(text) {
  sayAt = performance.now() + SENTENCE;
  news.textContent = text;
}

// Returns what has another state than when it was last looked at, by state and kind.
function changes() {
  const groups = new Map();
  for (const place of document.querySelectorAll("[data-state][id]")) {
    const { state, one, many } = place.dataset;
    const before = told.get(place.id);
    told.set(place.id, state);
    if (before === undefined || before === state || !state) continue;
    const name = `${many} ${state}`;
    groups.set(name, [...(groups.get(name) ?? []), `${one} ${state}`]);
  }
  return [...groups].map(([name, each]) => (each.length === 1 ? each[0] : `${each.length} ${name}`));
}

// Says in one sentence what has changed since the last one.
function report() {
  clearTimeout(sayTimer);
  const left = sayAt - performance.now();
  if (left > 0) {
    sayTimer = setTimeout(report, left + 1);
    return;
  }
  const found = changes();
  const more = approvalsWaiting() - waited;
  waited = approvalsWaiting();
  if (more > 0) found.push(more === 1 ? "An approval waits" : `${more} approvals wait`);
  if (!found.length) return;
  const [first, ...rest] = found;
  const second = rest.length > 1 ? `${rest.length} more changes` : rest[0];
  say(second ? `${first}, ${second[0].toLowerCase()}${second.slice(1)}.` : `${first}.`);
}

function follow(place) {
  let events;
  function open() {
    events = new EventSource(place.dataset.stream);
    events.addEventListener("refresh", want);
    events.addEventListener("reload", () => { events.close(); reload(); want(); });
    events.addEventListener("end", () => events.close());
    // EventSource reconnects when a connection breaks, but not after a response of another media type.
    events.addEventListener("error", () => {
      want();
      if (events.readyState === EventSource.CLOSED) setTimeout(open, RETRY);
    });
  }
  open();
  window.addEventListener("pagehide", () => events.close());
}

document.addEventListener("selectionchange", () => {
  selectedAt = performance.now();
  if (getSelection().isCollapsed) release();
});
document.addEventListener("submit", (event) => {
  setTimeout(() => {
    if (event.defaultPrevented) return;
    sendingUntil = performance.now() + SENDING;
    plan();
  });
});
window.addEventListener("pageshow", () => { sendingUntil = 0; });
document.addEventListener("focusout", release);
document.addEventListener("visibilitychange", plan);
document.addEventListener("refresh", () => { askedAt = -MOST_RETRY; want(); });
changes();
document.querySelectorAll("[data-stream]").forEach(follow);
plan();
