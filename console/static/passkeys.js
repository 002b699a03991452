// Passkeys: asks the browser what the form says, and sends the form with the answer.
"use strict";

const bytesOf = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const textOf = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function readable(options) {
  const described = (list) => (list || []).map((each) => ({ ...each, id: bytesOf(each.id) }));
  const read = { ...options, challenge: bytesOf(options.challenge) };
  if (options.user) read.user = { ...options.user, id: bytesOf(options.user.id) };
  if (options.allowCredentials) read.allowCredentials = described(options.allowCredentials);
  if (options.excludeCredentials) read.excludeCredentials = described(options.excludeCredentials);
  return read;
}

function sendable(credential) {
  const from = credential.response;
  const response = { clientDataJSON: textOf(from.clientDataJSON) };
  for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (from[name]) response[name] = textOf(from[name]);
  }
  return JSON.stringify({
    id: credential.id,
    rawId: textOf(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: {},
  });
}

async function ask(form) {
  const publicKey = readable(JSON.parse(form.dataset.passkeyOptions));
  return form.dataset.passkey === "create"
    ? navigator.credentials.create({ publicKey })
    : navigator.credentials.get({ publicKey });
}

const REASONS = {
  InvalidStateError: "This device has a passkey for you already.",
  NotAllowedError: "No passkey answered: it was cancelled, took too long, or is not on this device. Try again.",
  SecurityError: "This browser uses passkeys over https or on localhost only.",
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const start = form.querySelector("[data-passkey-start]");
  const problem = form.querySelector("[data-passkey-problem]");
  if (!window.PublicKeyCredential) {
    problem.textContent = "This browser has no passkeys here: it needs https or localhost.";
    problem.hidden = false;
    continue;
  }
  start.disabled = false;
  // The key Enter in the name.
  form.addEventListener("submit", (event) => {
    if (form.elements.response.value) return;
    event.preventDefault();
    start.click();
  });
  start.addEventListener("click", async () => {
    const named = form.querySelector("input[required]");
    if (named && !named.reportValidity()) return;
    start.disabled = true;
    problem.hidden = true;
    try {
      form.elements.response.value = sendable(await ask(form));
      form.requestSubmit();
    } catch (error) {
      problem.textContent = REASONS[error.name] || "The passkey could not be used. Try again.";
      problem.hidden = false;
      start.disabled = false;
    }
  });
}
