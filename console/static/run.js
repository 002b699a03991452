// Script of the pages of a run. Without it everything works, but durations do not count, logs do not follow their end, the
// graph has one size, and each choice of a step loads the page.
//
// data-zoom="in"       on a button in a group that is shown with script: makes the graph larger or smaller ("out"), or as wide as its place
//                      ("fit"); + - and 0 do so while the graph has the focus.
// data-elapsed="1234"  on an element: milliseconds that had passed when the page was made; it goes on counting.
// data-tail            on an element that scrolls: it is shown from its end, and follows it while it is there.
// data-to-end          on a hidden button: shown while that element is not at its end, and leads there.

function inWords(milliseconds) {
  if (milliseconds < 60000) return `${Math.floor(milliseconds / 1000)} s`;
  const seconds = Math.floor(milliseconds / 1000);
  for (const [large, small, first, second] of [[86400, 3600, "d", "h"], [3600, 60, "h", "min"], [60, 1, "min", "s"]]) {
    if (seconds >= large) return `${Math.floor(seconds / large)} ${first} ${Math.floor((seconds % large) / small)} ${second}`;
  }
}

const firstSeen = new WeakMap();

function count() {
  for (const place of document.querySelectorAll("[data-elapsed]")) {
    const { elapsed } = place.dataset;
    if (firstSeen.get(place)?.elapsed !== elapsed) firstSeen.set(place, { elapsed, at: performance.now() });
    const text = inWords(Number(elapsed) + performance.now() - firstSeen.get(place).at);
    if (place.textContent !== text) place.textContent = text;
  }
}

count();
setInterval(count, 1000);
document.addEventListener("fresh", count);

// Of each, whether it is to follow its end: until somebody scrolls away from it.
const following = new WeakMap();

function showJump(place) {
  const button = document.querySelector("[data-to-end]");
  const hidden = following.get(place);
  if (button && button.hidden !== hidden) button.hidden = hidden;
}

document.addEventListener("scroll", ({ target: place }) => {
  if (!following.has(place)) return;
  following.set(place, place.scrollHeight - place.scrollTop - place.clientHeight < 8);
  showJump(place);
}, true);

function followTails() {
  for (const place of document.querySelectorAll("[data-tail]")) {
    if (!following.has(place)) following.set(place, true);
    if (following.get(place)) place.scrollTop = place.scrollHeight;
    showJump(place);
  }
}

document.addEventListener("click", ({ target }) => {
  if (!target.matches("[data-to-end]")) return;
  const place = document.querySelector("[data-tail]");
  following.set(place, true);
  place.focus({ preventScroll: true });
  followTails();
});

followTails();
new MutationObserver(followTails).observe(document.getElementById("content"), { childList: true, characterData: true, subtree: true });

// Choosing a step, or folding waits, changes the address and what the page shows of it; nothing is loaded again.
const board = document.getElementById("board");
const panel = document.getElementById("step");
let shown = location.search;

function mark(step) {
  for (const link of board.querySelectorAll(".dag a, a.bar")) {
    const url = new URL(link.getAttribute("href"), location.href);
    if (url.searchParams.get("step") === step) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  showChosen();
}

function showAddress() {
  if (location.search === shown) return;
  shown = location.search;
  getSelection().removeAllRanges();
  // Where the focus is on what goes, it stays in the panel.
  if (panel.contains(document.activeElement)) panel.focus({ preventScroll: true });
  document.dispatchEvent(new Event("refresh"));
}

function choose(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.getAttribute("href"), location.href);
  if (!link.closest("#board, #step, #why") || url.pathname !== location.pathname || url.searchParams.has("tab")) return;
  event.preventDefault();
  if (url.search !== location.search) history.pushState(null, "", url.pathname + url.search);
  const step = url.searchParams.get("step");
  if (step) mark(step);
  showAddress();
  if (step && url.hash === "#step") lead();
}

// On a narrow screen the panel is below.
function lead() {
  if (panel.getBoundingClientRect().top > innerHeight * 0.6) panel.scrollIntoView({ block: "start" });
}

let ofStep = panel?.firstElementChild?.id;

if (board) {
  document.addEventListener("click", choose);
  window.addEventListener("popstate", showAddress);
  panel.addEventListener("fresh", () => {
    const now = panel.firstElementChild?.id;
    if (now !== ofStep) panel.scrollTop = 0;
    ofStep = now;
  });
}

// The graph.
const SIZES = [0.5, 0.75, 1, 1.5, 2, 3, 4];
let size = SIZES.indexOf(1);

function zoom(way) {
  if (way === "fit") size = SIZES.indexOf(1);
  else size = Math.min(SIZES.length - 1, Math.max(0, size + (way === "in" ? 1 : -1)));
  // On the document, where no update of a part removes it.
  document.documentElement.style.setProperty("--zoom", SIZES[size]);
  showChosen();
}

function showChosen() {
  const graph = board.querySelector(".graph .dag");
  const step = graph.querySelector("a[aria-current]")?.getBoundingClientRect();
  if (!step) return;
  const frame = graph.getBoundingClientRect();
  if (step.top < frame.top || step.bottom > frame.bottom) graph.scrollTop += step.top - frame.top - frame.height / 3;
  if (step.left < frame.left || step.right > frame.right) graph.scrollLeft += step.left - frame.left - frame.width / 3;
}

if (board) {
  document.documentElement.dataset.zooms = "";
  new ResizeObserver(showChosen).observe(board);
  document.addEventListener("click", ({ target }) => {
    const way = target.closest("[data-zoom]")?.dataset.zoom;
    if (way) zoom(way);
  });
  document.addEventListener("keydown", (event) => {
    const way = { "+": "in", "=": "in", "-": "out", 0: "fit" }[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(".graph")) return;
    event.preventDefault();
    zoom(way);
  });
}

// The head, under which the selected step stays.
const head = document.querySelector(".run-head");
if (head) {
  new ResizeObserver(() => {
    const height = getComputedStyle(head).position === "sticky" ? `${head.offsetHeight}px` : "0px";
    const { style } = document.documentElement;
    if (style.getPropertyValue("--head") !== height) style.setProperty("--head", height);
  }).observe(head);
}

document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll("details.menu-of[open]")) if (!menu.contains(target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu-of[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// Addresses of parts that have become tabs.
const TAB_OF = { made: "results", results: "results", events: "events", log: "events", given: "inputs", inputs: "inputs", "use-it": "inputs" };
const part = TAB_OF[location.hash.slice(1)];
if (head && part && !document.getElementById(location.hash.slice(1))) {
  location.replace(`${location.pathname}?tab=${part}${location.hash}`);
}
