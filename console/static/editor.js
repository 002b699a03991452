// Script of the editor of definitions: without it the numbers of lines stand beside the text that was sent.
//
// data-numbered            on a <textarea> after a .gutter: keeps one number a line, and as many rows.
// data-editor="/path"      on it: the address of a module that replaces it by a better editor, with the schema of manifests
//                          at data-schema. The text area keeps the text. Without the module everything else works.
// data-line="12"           on a link: chooses that line of the text.
//
// What is typed is checked as by the button Check, a moment later: the answer has the elements with the ids verdict,
// problems and graph, of which the last stays as it was while the text has problems.
"use strict";

const SPARE = 10;
const FEWEST = 20;
// Milliseconds after the last key; packages of environments are resolved by each check.
const PAUSE = 500;
const LONG_PAUSE = 3000;
const text = document.querySelector("[data-numbered]");
const gutter = text.previousElementSibling;
const original = text.value;
let sending = false;
let editor = null;

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
  if (editor) return editor.choose(Number(link.dataset.line));
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

const problemsIn = (place) => [...place.querySelectorAll(".line-problems > li")].map((item) => ({
  line: Number(item.querySelector("[data-line]")?.dataset.line ?? 1),
  message: `${item.querySelector("code").textContent} ${item.querySelector("span").textContent}`,
}));

let due = 0;
let asking = false;
let checked = text.value;

function say(words) {
  const verdict = document.getElementById("verdict");
  verdict.className = "";
  verdict.textContent = words;
}

// One check at a time: while one is under way the next waits for its end.
async function check() {
  if (asking || sending || text.value === checked) return;
  asking = true;
  checked = text.value;
  try {
    const fields = new URLSearchParams(new FormData(text.form));
    fields.set("do", "live");
    const answer = await fetch(text.form.action, { method: "POST", body: fields, headers: { "X-Refresh": "true" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok || !page.getElementById("verdict")) throw new Error(`the check was answered ${answer.status}`);
    if (text.value === checked) take(page);
  } catch {
    say("It could not be checked: press Check to see why.");
  }
  asking = false;
  if (text.value !== checked) wait();
}

function take(page) {
  editor.show(problemsIn(page.getElementById("problems")));
  document.getElementById("problems").replaceChildren();
  for (const id of ["verdict", "graph"]) {
    const [now, next] = [document.getElementById(id), page.getElementById(id)];
    if (!next) continue;
    now.className = next.className;
    now.replaceChildren(...next.childNodes);
  }
}

function wait() {
  clearTimeout(due);
  due = setTimeout(check, /^kind: *Environment/m.test(text.value) ? LONG_PAUSE : PAUSE);
}

async function improve() {
  const module = await import(text.dataset.editor);
  let schema = null;
  const label = document.getElementById(`${text.id}-label`);
  editor = module.replace(text, {
    readSchema: () => (schema ??= fetch(text.dataset.schema).then((answer) => answer.json())), label: label.id, help: text.getAttribute("aria-describedby"), longest: text.maxLength,
    changed: () => {
      say("Checking…");
      wait();
    },
  });
  label.removeAttribute("for");
  label.addEventListener("click", editor.focus);
  document.querySelector("[data-keys]").hidden = false;
  editor.show(problemsIn(document.getElementById("problems")));
  // A new definition, or a former version, has no verdict yet.
  checked = null;
  if (!document.querySelector("[name=checked], .problem")) wait();
}

if (text.dataset.editor) improve().catch((error) => console.warn("The text is edited as plain text:", error));
