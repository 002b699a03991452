// Script of the pages of a run. Without it everything works except durations that count and logs that follow their end.
//
// data-elapsed="1234"  on an element: milliseconds that had passed when the page was made; it goes on counting.
// data-tail            on an element that scrolls: it is shown from its end.

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
    if (!firstSeen.has(place)) firstSeen.set(place, performance.now());
    place.textContent = inWords(Number(place.dataset.elapsed) + performance.now() - firstSeen.get(place));
  }
}

count();
setInterval(count, 1000);

const shown = new WeakSet();

function followTails() {
  for (const place of document.querySelectorAll("[data-tail]")) {
    if (shown.has(place)) continue;
    shown.add(place);
    place.scrollTop = place.scrollHeight;
  }
}

followTails();
new MutationObserver(followTails).observe(document.getElementById("content"), { childList: true, subtree: true });
