// Script of the form that starts a run: uploads files as soon as they are chosen, and shows how far it is: the share that
// is sent, then for how long it has been stored and, of a zip, expanded. Without it they are sent with the form. The
// answer to an upload is the page; its sections of files replace those that are shown.
"use strict";

const form = document.querySelector("form.start");
const waiting = [];
let sending = null;
let pressed = null;

document.addEventListener("change", (event) => {
  const section = event.target.closest("[data-files]");
  if (!section || event.target.type !== "file") return;
  const large = [...event.target.files].filter((file) => file.size > Number(section.dataset.mostBytes));
  if (large.length) {
    say(section, `${large.map((file) => `'${file.name}'`).join(", ")} has more than 100 MB.`);
    event.target.value = "";
  } else if (event.target.files.length) {
    waiting.push(section.id);
    sendNext();
  }
});

// A start waits for the files that are on their way.
form.addEventListener("submit", (event) => {
  if (!sending) return;
  event.preventDefault();
  event.stopPropagation();
  pressed = event.submitter;
  say(document.getElementById(sending), "The run starts once the files are uploaded.");
});

function sendNext() {
  if (sending || !waiting.length) return;
  sending = waiting.shift();
  const section = document.getElementById(sending);
  const body = new FormData(form);
  // The files of the other sections are sent with theirs.
  for (const input of form.querySelectorAll("input[type=file]")) {
    if (!section.contains(input)) body.delete(input.name);
  }
  body.set("attach", "yes");
  const bar = section.querySelector("progress");
  const names = [...section.querySelector("input").files].map((file) => file.name);
  bar.hidden = false;
  bar.value = 0;
  say(section, "");
  tell(section, "");
  const request = new XMLHttpRequest();
  request.upload.addEventListener("progress", (event) => {
    if (event.lengthComputable) bar.value = (100 * event.loaded) / event.total;
  });
  request.upload.addEventListener("load", () => {
    // How long the rest takes is not known: the bar moves without a value, and the seconds are counted.
    bar.removeAttribute("value");
    tell(section, names.some((name) => /\.zip$/i.test(name)) ? "Uploaded. The zip is being expanded" : "Uploaded. It is being stored");
    const begun = Date.now();
    const timer = setInterval(() => {
      section.querySelector(".seconds").textContent = ` for ${Math.round((Date.now() - begun) / 1000)} s.`;
    }, 1000);
    request.addEventListener("loadend", () => clearInterval(timer));
  });
  request.addEventListener("load", () => finish(section, request));
  request.addEventListener("error", () => stop(section, "The upload broke off. Choose the files again."));
  request.open("POST", form.action);
  request.send(body);
}

function finish(section, request) {
  const page = new DOMParser().parseFromString(request.responseText, "text/html");
  const fresh = page.getElementById(section.id);
  if (!fresh) return stop(section, `The upload was refused (${request.status}). Reload the page and try again.`);
  document.getElementById("upload").value = page.getElementById("upload").value;
  section.replaceWith(fresh);
  hideButtons();
  sending = null;
  const failed = fresh.querySelector("[aria-invalid]");
  if (failed) failed.focus();
  if (waiting.length) return sendNext();
  const submitter = pressed;
  pressed = null;
  if (submitter && !failed) form.requestSubmit(submitter);
}

function stop(section, text) {
  sending = null;
  pressed = null;
  section.querySelector("input").value = "";
  section.querySelector("progress").hidden = true;
  tell(section, "");
  say(section, text);
  sendNext();
}

function say(section, text) {
  section.querySelector(".upload-problem").textContent = text;
}

function tell(section, text) {
  section.querySelector(".upload-progress").textContent = text;
  section.querySelector(".seconds").textContent = "";
}

function hideButtons() {
  for (const button of document.querySelectorAll("[data-attach]")) button.hidden = true;
}

hideButtons();
