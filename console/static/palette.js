// The command palette: Ctrl K, or the link with data-palette, opens the search in a dialog. Results are those of the page
// /search, which is there without script. Arrows move, Enter opens, Escape closes. Without a text the pages that this
// person opened last stand first; the browser alone keeps them, until the sign-out (console.js).

const PALETTE_PAUSE = 120;
const RECENT_PAGES = 6;
const RECENT = `recent:${document.body.dataset.person}`;
let palette;

function readRecent() {
  try { return JSON.parse(localStorage.getItem(RECENT)) ?? []; } catch { return []; }
}

function keepRecent() {
  const path = location.pathname;
  if (path === "/" || path === "/search" || !document.querySelector("h1")) return;
  // A status in the title is soon another one.
  const title = document.querySelector("h1").dataset.title ?? document.title.replace(/^\(\d+\) /, "").replace(/ · [^·]*$/, "");
  const others = readRecent().filter((each) => each.path !== path);
  try { localStorage.setItem(RECENT, JSON.stringify([{ path, title }, ...others].slice(0, RECENT_PAGES + 1))); } catch { /* full */ }
}

function recentPages() {
  const heading = document.createElement("h2");
  heading.textContent = "Recent";
  const list = document.createElement("ul");
  for (const { path, title } of readRecent().filter((each) => each.path !== location.pathname).slice(0, RECENT_PAGES)) {
    const link = document.createElement("a");
    link.href = path;
    link.textContent = title;
    list.appendChild(document.createElement("li")).append(link);
  }
  return list.children.length ? [heading, list] : [];
}

function makePalette() {
  const dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Search");
  const input = document.createElement("input");
  input.type = "search";
  input.maxLength = 200;
  input.placeholder = "Run, workflow, key, page, or “start …”";
  input.setAttribute("aria-label", "Search for a run, workflow, agent, environment, connector, knowledge graph, key or page");
  const found = document.createElement("div");
  found.className = "found";
  found.setAttribute("role", "status");
  dialog.append(input, found);
  document.body.append(dialog);

  let due = 0;
  let asked = 0;
  async function look() {
    const number = ++asked;
    const answer = await fetch(`/search?q=${encodeURIComponent(input.value)}`, { headers: { "X-Refresh": "true" } });
    if (answer.redirected) return location.reload();
    if (!answer.ok) throw new Error(`the search was answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const results = page.getElementById("found");
    if (number !== asked || !results) return;
    found.replaceChildren(...(input.value ? [] : recentPages()), ...results.childNodes);
    found.dispatchEvent(new Event("fresh", { bubbles: true }));
    choose(0);
  }
  const links = () => [...found.querySelectorAll("a, button")];
  const chosen = () => links().findIndex((link) => link.classList.contains("chosen"));
  function choose(place) {
    const all = links();
    all.forEach((link, at) => link.classList.toggle("chosen", at === place));
    all[place]?.scrollIntoView({ block: "nearest" });
  }
  async function lookOrSay() {
    await look().catch(() => { found.textContent = "The search could not be reached. Try again."; });
  }
  input.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(lookOrSay, PALETTE_PAUSE);
  });
  dialog.addEventListener("keydown", (event) => {
    const all = links();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (all.length) choose((chosen() + step + all.length) % all.length);
    } else if (event.key === "Escape") {
      // A search field would only be emptied by it.
      dialog.close();
    } else if (event.key === "Enter" && event.target === input) {
      const link = all[chosen()];
      if (link) link.click();
      else location.href = `/search?q=${encodeURIComponent(input.value)}`;
    } else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return { dialog, input, look: lookOrSay };
}

function openPalette() {
  palette ??= makePalette();
  if (palette.dialog.open) return palette.dialog.close();
  palette.dialog.showModal();
  palette.input.select();
  palette.look();
}

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
  event.preventDefault();
  openPalette();
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  openPalette();
});
keepRecent();
