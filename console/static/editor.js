// Script of the editor of definitions: without it the numbers of lines stand beside the text that was sent.
//
// data-numbered            on a <textarea> after a .gutter: keeps one number a line, and as many rows.
// data-line="12"           on a link: chooses that line of the text.
"use strict";

const SPARE = 10;
const FEWEST = 20;
const text = document.querySelector("[data-numbered]");
const gutter = text.previousElementSibling;
const original = text.value;
let sending = false;

function renumber() {
  const rows = Math.max(text.value.split("\n").length + SPARE, FEWEST);
  if (rows === text.rows) return;
  text.rows = rows;
  gutter.textContent = Array.from({ length: rows }, (_, index) => index + 1).join("\n");
}

// The page has the first numbers alone, so that it stays small.
const numbered = gutter.textContent.split("\n").length;
for (let number = numbered + 1; number <= text.rows; number++) gutter.append(`\n${number}`);

text.addEventListener("input", renumber);

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-line]");
  if (!link) return;
  event.preventDefault();
  const lines = text.value.split("\n");
  const line = Math.min(Number(link.dataset.line), lines.length);
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  text.focus({ preventScroll: true });
  text.setSelectionRange(start, start + lines[line - 1].length);
  const height = text.getBoundingClientRect().height / text.rows;
  window.scrollTo({ top: text.getBoundingClientRect().top + window.scrollY + height * line - window.innerHeight / 3 });
});

// What was typed is not lost by leaving the page unasked.
document.addEventListener("submit", () => { sending = true; });
window.addEventListener("beforeunload", (event) => { if (!sending && text.value !== original) event.preventDefault(); });
window.addEventListener("pageshow", () => { sending = false; });
