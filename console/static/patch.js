// Makes elements of the page like those of another answer of the server, and touches only what has changed.
//
// The focus, the caret, selections, scroll positions, open <details>, typed text and ticked boxes stay. Elements are
// matched by their id, else by their name or first link. A field that somebody has changed keeps its value, and an element
// in use that the server no longer has stays until it has been left: `patch` returns whether there is one.

// Attributes that people and scripts change on the page, and that no answer of the server knows of.
const KEPT = { DETAILS: ["open"], DIALOG: ["open"], BUTTON: ["hidden", "aria-busy"], TIME: ["data-exact"] };

export const FIELDS = "input, select, textarea";

let postponed = false;

export function patch(old, next) {
  postponed = false;
  patchNode(old, next);
  return postponed;
}

export function isTyped(field) {
  if (field.nodeName === "SELECT") return field.selectedIndex !== Math.max(0, [...field.options].findIndex((each) => each.defaultSelected));
  return field.type !== "hidden" && (field.value !== field.defaultValue || field.checked !== field.defaultChecked);
}

// What tells an element apart from its siblings; a row is told apart by its first link.
function nameOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const named = node.id || node.hasAttribute("href") || node.hasAttribute("name") ? node : node.querySelector("[id], [href]");
  return `${node.nodeName} ${named?.id || named?.getAttribute("href") || named?.getAttribute("name")}`;
}

// Somebody types here or is about to press a button: it goes when they have left it.
function isInUse(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return false;
  return node.contains(document.activeElement) || [node, ...node.querySelectorAll(FIELDS)].some((each) =>
    each.matches(FIELDS) && isTyped(each));
}

// A field with an answer of somebody's, or a token: each answer of the server has another one, and all are valid.
function isLeft(field) {
  if (field.nodeName === "TEXTAREA" || field.nodeName === "SELECT") return field === document.activeElement || isTyped(field);
  return field.nodeName === "INPUT" && (field.name === "csrf" || field === document.activeElement || isTyped(field));
}

// Texts that scripts fill in.
function isFilledIn(old, next) {
  if (old.nodeName === "TIME") return old.dateTime === next.dateTime && old.title === next.title;
  return old.nodeName === "OUTPUT" || old.hasAttribute("data-copy");
}

// Of a text of which the end grows and the beginning may go, as of a log, what is selected or read stays where it is.
function patchText(old, next) {
  const gone = old.data.indexOf(next.data.slice(0, 200));
  if (old.data && gone >= 0 && next.data.startsWith(old.data.slice(gone))) {
    const kept = old.data.length - gone;
    const frame = old.parentElement;
    const height = gone ? frame.scrollHeight : 0;
    if (gone) old.deleteData(0, gone);
    if (gone && frame.scrollTop) frame.scrollTop -= height - frame.scrollHeight;
    old.appendData(next.data.slice(kept));
  } else {
    old.data = next.data;
  }
}

function patchNode(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) return patchText(old, next);
  if (isLeft(old)) return;
  const filled = isFilledIn(old, next);
  const kept = KEPT[old.nodeName] ?? [];
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !kept.includes(name)) old.setAttribute(name, value);
  }
  if (!filled) patchChildren(old, next);
}

function patchChildren(old, next) {
  const unused = [...old.childNodes];
  const found = new Map();
  function pair(alike) {
    for (const child of next.childNodes) {
      if (found.has(child)) continue;
      const at = unused.findIndex((each) => alike(each, child));
      if (at >= 0) found.set(child, unused.splice(at, 1)[0]);
    }
  }
  const names = new Map([...old.childNodes, ...next.childNodes].map((node) => [node, nameOf(node)]));
  pair((each, child) => names.get(each) === names.get(child));
  pair((each, child) => each.nodeName === child.nodeName && !each.id && !child.id && !isInUse(each));
  for (const child of unused) {
    if (isInUse(child)) keepUnsent(child);
    else child.remove();
  }
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    while (at && unused.includes(at)) at = at.nextSibling;
    const here = found.get(child) ?? child;
    if (here === at) at = at.nextSibling;
    else move(old, here, at);
    if (here !== child) patchNode(here, child);
  }
}

// What the server no longer has stays for what is typed or ticked there; a decision that somebody took is not sent again.
function keepUnsent(node) {
  postponed = true;
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const button of node.querySelectorAll("button[name=decision]")) {
    if (button !== document.activeElement) button.disabled = true;
  }
}

// Moving an element takes its focus, scroll position and transitions, where the browser cannot move it as it is.
function move(parent, node, before) {
  if (parent.moveBefore && node.parentNode === parent) return parent.moveBefore(node, before);
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(node, before);
  if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
}
