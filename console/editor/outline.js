// Outline of a manifest by indentation, which a text has at every moment of its being typed: nodes of keys and of
// entries of lists, each { name or index, parent, children, value, column, line }.

const LINE = /^( *)((?:- +)*)(-$)?(?:("[^"]*"|'[^']*'|[^\s#'"\[{-][^:#\n]*?) *:(?: +(.*))?$)?/;
const BLOCK = /^[|>][-+0-9]*(?:\s+#.*)?$/;

function attach(stack, node) {
  const isEntry = node.index === undefined ? false : true;
  for (let top = stack.at(-1); top.column > node.column || (top.column === node.column && (!isEntry || top.index !== undefined)); top = stack.at(-1)) {
    stack.pop();
  }
  node.parent = stack.at(-1);
  if (isEntry) node.index = node.parent.entries.push(node) - 1;
  else node.parent.children.set(node.name, node);
  stack.push(node);
}

const nodeAt = (column, line, more) => ({ column, line, children: new Map(), entries: [], value: "", ...more });

// Returns the root, and the nodes of every line. The line and column of a word that is being typed count as a key.
export function outline(lines, typed = null) {
  const root = nodeAt(-1, -1, {});
  const nodes = lines.map(() => []);
  let stack = [root];
  let block = null;
  let partial = null;
  lines.forEach((text, line) => {
    const indent = /^ */.exec(text)[0].length;
    if (block !== null) {
      if (!text.trim() || indent > block) { if (typed?.line !== line || indent > block) { nodes[line] = null; return; } }
      block = null;
    }
    if (/^---/.test(text)) { stack = [root]; root.children.clear(); return; }
    const isTyped = typed?.line === line;
    if (!isTyped && (!text.trim() || text.trim().startsWith("#"))) return;
    const [, blanks, dashes, lastDash, key, value = ""] = LINE.exec(text);
    let column = blanks.length;
    for (const dash of dashes.match(/- +/g) ?? []) {
      const entry = nodeAt(column, line, { index: -1 });
      attach(stack, entry);
      nodes[line].push(entry);
      column += dash.length;
    }
    if (lastDash) {
      const entry = nodeAt(column, line, { index: -1 });
      attach(stack, entry);
      nodes[line].push(entry);
      column += 1;
    }
    if (isTyped && !key) {
      partial = nodeAt(Math.max(column, typed.column), line, { name: "\0typed" });
      attach(stack, partial);
      partial.parent.children.delete(partial.name);
      stack.pop();
      return;
    }
    const plain = text.slice(column).trim();
    if (!key) {
      const last = nodes[line].at(-1);
      if (last) last.value = plain;
      return;
    }
    const node = nodeAt(column, line, { name: key.replace(/^["']|["']$/g, ""), value: value.trim() });
    attach(stack, node);
    nodes[line].push(node);
    if (BLOCK.test(node.value)) block = column;
  });
  return { root, nodes, partial };
}

export const scalar = (node) => node?.value.replace(/\s+#.*$/, "").replace(/^["'](.*)["']$/, "$1");
