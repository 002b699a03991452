// Script of the inbox of approvals. Without it everything works except keys, the count that follows, and notifications.
//
// [data-item] are the links of the list, #decide holds the form of the chosen one and has data-about, #inbox data-icon.

const BOX = ".items input[type=checkbox]";
let known = new Set(items().map(mark));
// An update replaces the list.
const chosen = new Set();

function items() {
  return [...document.querySelectorAll("[data-item]")];
}

// An approval that a reminder was sent for counts as one more.
function mark(link) {
  return link.dataset.item + ("reminded" in link.dataset ? " reminded" : "");
}

function step(by) {
  const links = items();
  const at = links.findIndex((link) => link.getAttribute("aria-current"));
  const next = links[Math.min(Math.max(at + by, 0), links.length - 1)];
  if (next && links.indexOf(next) !== at) next.click();
}

function decide(decision) {
  const button = document.querySelector(`#decide button[value="${decision}"]`);
  if (!button || button.disabled) return;
  // Rejecting has a question of its own.
  const { about } = document.getElementById("decide").dataset;
  if (decision === "reject") button.click();
  else button.dispatchEvent(new CustomEvent("ask", { bubbles: true, detail: `Approve ${about}?` }));
}

function showChosen() {
  const place = document.getElementById("chosen-count");
  const text = `${document.querySelectorAll(`${BOX}:checked`).length} chosen`;
  // The observer below would see each change as a new one.
  if (place && place.textContent !== text) place.textContent = text;
}

function choose() {
  document.querySelector(".items .current input[type=checkbox]")?.click();
}

document.addEventListener("change", ({ target }) => {
  if (!target.matches(BOX)) return;
  if (target.checked) chosen.add(target.value);
  else chosen.delete(target.value);
  showChosen();
});

const KEYS = { j: () => step(1), k: () => step(-1), a: () => decide("approve"), r: () => decide("reject"), x: choose };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

function allowed() {
  return "Notification" in window && Notification.permission === "granted";
}

function count() {
  const inbox = document.getElementById("inbox");
  const icon = document.getElementById("count-icon");
  if (icon.getAttribute("href") !== inbox.dataset.icon) icon.setAttribute("href", inbox.dataset.icon);
  const now = items();
  const added = now.filter((link) => !known.has(mark(link)));
  if (added.length && document.hidden && allowed()) {
    const [first] = added;
    const title = "reminded" in first.dataset ? "An approval still waits" : "An approval waits";
    const shown = new Notification(title, { body: first.querySelector("strong").textContent, tag: "approvals" });
    shown.addEventListener("click", () => window.focus());
  }
  known = new Set(now.map(mark));
  for (const box of document.querySelectorAll(BOX)) if (chosen.has(box.value)) box.checked = true;
  showChosen();
}

showChosen();

new MutationObserver(count).observe(document.getElementById("content"), { childList: true, subtree: true });

const notify = document.getElementById("notify");
if ("Notification" in window && Notification.permission === "default") notify.hidden = false;
notify.addEventListener("click", async () => {
  await Notification.requestPermission();
  notify.hidden = true;
});
