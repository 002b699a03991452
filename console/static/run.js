// Script of the pages of a run. Without it everything works except durations that count and logs that follow their end.
//
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
