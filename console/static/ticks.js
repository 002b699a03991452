// Script of lists whose rows have boxes, and of the pages that change what is ticked. Without it the boxes of rows work.
//
// [data-ticks-all] is the box in a table's head, which ticks all others of its form; #ticked says how many are ticked.
// form[data-go-on] is sent by itself, once its page has been shown for a second.

const GO_ON = 1000;

function boxesOf(form) {
  return [...form.querySelectorAll("td input[type=checkbox]")];
}

// An update may have added rows, so that not all are ticked any more.
function count() {
  for (const all of document.querySelectorAll("[data-ticks-all]")) {
    const boxes = boxesOf(all.form);
    const ticked = boxes.filter((box) => box.checked).length;
    all.checked = ticked > 0 && ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
    const text = ticked ? `${ticked} chosen:` : "None chosen";
    const shown = document.getElementById("ticked");
    if (shown.textContent !== text) shown.textContent = text;
  }
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-ticks-all]")) for (const box of boxesOf(target.form)) box.checked = target.checked;
  if (target.form) count();
});
document.addEventListener("fresh", count);
window.addEventListener("pageshow", count);

// Not again on a page that was returned to.
const [entry] = performance.getEntriesByType("navigation");
const next = document.querySelector("form[data-go-on]");
if (next && entry?.type === "navigate") setTimeout(() => next.requestSubmit(), GO_ON);
