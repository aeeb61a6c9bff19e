/* The page: the list of rewrites, the selection, the search, the tabs. */

const FATES = [
  "Unchanged", "Rewritten", "Computed ahead of time", "No longer needed", "Its readers read another result",
];
const get = (id) => document.getElementById(id);

function make(name, className = "", text = "", parent = null) {
  const child = document.createElement(name);
  if (className) child.className = className;
  if (text) child.textContent = text;
  if (parent) parent.append(child);
  return child;
}

/* The length of the scopes with which all names begin. */
function commonFolder(names) {
  let [length, first] = [0, names[0]];
  while (length < first.length && names.every((name) => name[length] === first[length])) length += 1;
  return first.lastIndexOf("/", length - 1) + 1;
}

async function unpacked() {
  const raw = Uint8Array.from(atob(get("data").textContent.trim()), (char) => char.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

class Page {
  constructor(data) {
    this.links = data.links;
    this.patterns = data.patterns;
    this.misses = data.misses;
    this.isSingle = data.isSingle;
    this.changes = data.links.changes.map(([name, before, after, isGone], id) => ({ id, name, before, after, isGone }));
    const on = {
      hover: (...args) => this.hover(...args), leave: () => { get("tip").hidden = true; },
      select: (pane, node) => this.selectNode(pane, node), toggle: (pane, scope) => this.toggle(pane, scope),
      clear: () => this.clear(), walked: (pane, spot) => this.walked(pane, spot), close: (pane) => this.close(pane),
    };
    this.before = new Pane(get("before"), new Side(data.before, true), this.links, on);
    this.after = new Pane(get("after"), new Side(data.after, false), this.links, on);
    this.panes = [this.before, this.after];
    this.wasOf = new Map();
    this.links.twins.forEach((twin, node) => { if (twin >= 0 && !this.links.fates[node]) this.wasOf.set(twin, node); });
    this.list("");
    this.listen();
  }

  listen() {
    get("filter").addEventListener("input", () => this.list(get("filter").value));
    get("search").addEventListener("input", () => this.search());
    get("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.nextHit(event.shiftKey ? -1 : 1);
    });
    get("next").addEventListener("click", () => this.nextHit(1));
    get("previous").addEventListener("click", () => this.nextHit(-1));
    const all = (act) => () => this.panes.forEach(act);
    get("fit").addEventListener("click", all((pane) => pane.fit()));
    get("larger").addEventListener("click", all((pane) => pane.zoom(1.25)));
    get("smaller").addEventListener("click", all((pane) => pane.zoom(0.8)));
    get("open").addEventListener("click", all((pane) => this.openAll(pane, true)));
    get("close").addEventListener("click", all((pane) => this.openAll(pane, false)));
    document.addEventListener("keydown", (event) => this.key(event));
    const tabs = [...document.querySelectorAll("[role=tab]")];
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => this.showTab(tab, tabs));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) this.showTab(tabs[(place + step + tabs.length) % tabs.length], tabs);
      });
    });
    document.querySelectorAll("[data-miss]").forEach((row) => {
      row.addEventListener("click", () => this.selectMiss(Number(row.dataset.miss), tabs));
    });
    new ResizeObserver(() => this.panes.forEach((pane) => pane.draw())).observe(get("panes"));
    addEventListener("beforeprint", () => {
      document.querySelectorAll("#rewrites details").forEach((group) => { group.open = true; });
      for (const pane of this.panes) {
        pane.fit();
        pane.svg.setAttribute("viewBox", `0 0 ${pane.size.join(" ")}`); // paper has another size than the window
      }
    });
    addEventListener("afterprint", () => this.panes.forEach((pane) => pane.svg.removeAttribute("viewBox")));
  }

  key(event) {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !isTyping) get("search").focus();
    else if (event.key === "Escape") {
      if (isTyping) event.target.blur();
      this.clear();
    } else return;
    event.preventDefault();
  }

  showTab(chosen, tabs) {
    for (const tab of tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute("aria-selected", isChosen);
      tab.tabIndex = isChosen ? 0 : -1;
      get(tab.getAttribute("aria-controls")).classList.toggle("shown", isChosen);
    }
    chosen.focus();
    if (chosen.getAttribute("aria-controls") === "graphs") this.panes.forEach((pane) => pane.draw());
  }

  /* ------------------------------------------------ list of rewrites */

  placeOf(change) {
    const [pane, id] = change.before.length ? [this.before, change.before[change.before.length - 1]] : [this.after, change.after[0]];
    return id === undefined ? "" : pane.side.nodes[id].name;
  }

  textOf(change) {
    const operators = change.before.map((id) => this.before.side.nodes[id].op);
    return `${change.name} ${this.placeOf(change)} ${operators.join(" ")}`.toLowerCase();
  }

  list(text) {
    const filter = text.trim().toLowerCase();
    const groups = new Map();
    for (const change of this.changes) {
      if (filter && !this.textOf(change).includes(filter)) continue;
      if (!groups.has(change.name)) groups.set(change.name, []);
      groups.get(change.name).push(change);
    }
    const sorted = [...groups].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
    const count = sorted.reduce((sum, [, changes]) => sum + changes.length, 0);
    get("count").textContent = filter ? `${count} of ${this.changes.length}` : `${count}`;
    const parts = document.createDocumentFragment();
    for (const [name, changes] of sorted) parts.append(this.group(name, changes, sorted.length === 1));
    if (!count) parts.append(make("p", "none", filter ? "No rewrite fits." : "No rewrite was applied."));
    get("rewrites").replaceChildren(parts);
  }

  group(name, changes, isOpen) {
    const details = make("details");
    const summary = make("summary", "", "", details);
    make("span", "pattern", name || "between equal values", summary);
    make("span", "number", `${changes.length}`, summary);
    const about = this.patterns[name];
    if (about && about.arrow) make("small", "", about.arrow, summary);
    const fill = () => {
      if (!details.open || details.childElementCount > 1) return;
      const names = changes.map((change) => this.placeOf(change) || "(no name)");
      const same = commonFolder(names);
      changes.forEach((change, place) => details.append(this.row(change, names[place], same)));
    };
    details.addEventListener("toggle", fill);
    details.open = isOpen;
    fill();
    return details;
  }

  row(change, name, same) {
    const button = make("button", "row");
    button.dataset.change = change.id;
    const short = name.slice(same);
    make("span", "place", short.length > 32 ? `${short.slice(0, 17)}…${short.slice(-14)}` : short, button).title = name;
    const after = change.isGone ? 0 : change.after.length;
    make("span", "gone", `−${change.before.length}`, button);
    make("span", "new", after ? `+${after}` : "", button);
    button.addEventListener("click", () => this.selectChange(change.id));
    return button;
  }

  /* ------------------------------------------------ selection */

  mark(before, after) {
    this.before.marked = new Set(before);
    this.after.marked = new Set(after);
  }

  clear() {
    this.panes.forEach((pane) => { pane.marked = new Set(); pane.cursor = null; pane.draw(); });
    document.querySelectorAll(".row.chosen").forEach((row) => row.classList.remove("chosen"));
    get("details").replaceChildren(get("hint").content.cloneNode(true));
  }

  selectChange(id, held = null, node = null) {
    const change = this.changes[id];
    this.mark(change.before, change.after);
    for (const pane of this.panes) {
      pane.cursor = null;
      const ids = pane === this.before ? change.before : change.after;
      if (pane === held) pane.cursor = { kind: ITEM_NODE, ref: node };
      pane.reveal(ids, pane === held);
    }
    document.querySelectorAll(".row.chosen").forEach((row) => row.classList.remove("chosen"));
    const row = document.querySelector(`[data-change="${id}"]`);
    if (row) row.classList.add("chosen");
    const box = make("div");
    if (held) this.describe(box, held, node);
    this.describeChange(box, change);
    get("details").replaceChildren(box);
  }

  selectNode(pane, node) {
    const isBefore = pane === this.before;
    const change = isBefore ? this.links.step[node] : this.links.made[node];
    if (change >= 0) return this.selectChange(change, pane, node);
    const twin = isBefore ? this.links.twins[node] : this.wasOf.get(node);
    const other = twin === undefined || twin < 0 ? [] : [twin];
    this.mark(isBefore ? [node] : other, isBefore ? other : [node]);
    pane.cursor = { kind: ITEM_NODE, ref: node };
    const opposite = isBefore ? this.after : this.before;
    opposite.cursor = null;
    pane.draw();
    opposite.reveal(other);
    const box = make("div");
    this.describe(box, pane, node);
    return get("details").replaceChildren(box);
  }

  selectMiss(id, tabs) {
    const miss = this.misses[id];
    this.showTab(tabs[0], tabs);
    this.mark([], [...miss.nodes, ...miss.culprit]);
    this.panes.forEach((pane) => { pane.cursor = null; });
    this.before.draw();
    this.after.reveal([...miss.nodes, ...miss.culprit]);
    const box = make("div");
    make("h3", "", `Not fused: ${miss.pattern}`, box);
    make("p", "", `${miss.reached}: ${miss.reason}`, box);
    if (miss.arrow) make("p", "arrow", miss.arrow, box);
    get("details").replaceChildren(box);
  }

  walked(pane, spot) {
    if (spot.kind === ITEM_NODE) this.selectNode(pane, spot.ref);
    else {
      this.clear();
      pane.cursor = { kind: spot.kind, ref: spot.ref };
      const scope = pane.side.scopes[spot.ref];
      get("details").replaceChildren(make("p", "", `Scope ${scope.path}: ${scope.inside.length} nodes. Enter opens it.`));
    }
    const at = pane.spotOf(pane.cursor || spot);
    if (at) pane.follow(at);
  }

  toggle(pane, scope, open = !pane.side.open.has(scope)) {
    const { path } = pane.side.scopes[scope];
    for (const view of this.panes) {
      const match = view.side.scopes.find((candidate) => candidate.path === path && candidate.id > 0);
      if (!match || view.side.open.has(match.id) === open) continue;
      const before = view.side.byScope.get(match.id);
      const at = before && [before.x * view.scale + view.x, before.y * view.scale + view.y];
      view.side.toggle(match.id, open);
      const after = view.side.byScope.get(match.id);
      if (at && after) view.move(at[0] - after.x * view.scale - view.x, at[1] - after.y * view.scale - view.y);
      view.draw();
    }
  }

  close(pane) {
    const { kind, ref } = pane.cursor;
    const scope = kind === ITEM_NODE ? pane.side.nodes[ref].scope : ref;
    if (scope > 0) this.toggle(pane, scope, false);
  }

  openAll(pane, open) {
    pane.side.open = new Set(open ? pane.side.scopes.map((scope) => scope.id) : [0]);
    pane.side.arrange();
    pane.home();
  }

  /* ------------------------------------------------ descriptions */

  describe(parent, pane, id) {
    const node = pane.side.nodes[id];
    const isBefore = pane === this.before;
    const fate = isBefore ? FATES[this.links.fates[id]] : this.links.made[id] >= 0 ? "New" : "Unchanged";
    const head = make("h3", "", `${node.op} `, parent);
    make("code", "", node.name, head);
    if (!this.isSingle) make("span", `fate ${pane.stateOf(id)}`, fate, head);
    const facts = make("dl", "facts", "", parent);
    const add = (term, values) => values.forEach((value, place) => {
      make("dt", "", place ? "" : term, facts);
      const line = make("dd", "", "", facts);
      make("code", "", value.name, line);
      line.append(` ${value.kind}`);
    });
    add("reads", node.inputs.map((value) => pane.side.values[value]));
    add("gives", node.outputs.map((value) => pane.side.values[value]));
    if (node.attributes) {
      make("dt", "", "attributes", facts);
      make("dd", "", node.attributes, facts);
    }
    if (pane.side.costs[id]) {
      make("dt", "", "cost", facts);
      make("dd", "", pane.side.costs[id], facts);
    }
    if (pane.side.runs[id]) {
      make("dt", "", "placement", facts);
      make("dd", "", pane.side.runs[id].text, facts);
    }
  }

  describeChange(parent, change) {
    const about = this.patterns[change.name] || {};
    const head = make("h3", "", `Rewrite ${change.id + 1}: ${change.name || "between equal values"}`, parent);
    if (about.exactness) make("span", "grade", about.exactness, head);
    if (about.arrow) make("p", "arrow", about.arrow, parent);
    const of = (side, ids) => ids.map((id) => side.nodes[id].op).join(", ");
    const after = change.isGone ? "nothing; its readers are marked" : of(this.after.side, change.after);
    make("p", "", `${of(this.before.side, change.before) || "nodes of earlier rewrites"} → ${after}`, parent);
    const doc = about.doc || [];
    const refusals = doc.findIndex((text) => text.startsWith("Refuses when"));
    doc.slice(0, refusals < 0 ? doc.length : refusals).forEach((text) => make("p", "reason", text, parent));
    if (refusals >= 0) {
      const more = make("details", "reason", "", parent);
      make("summary", "", doc[refusals], more);
      doc.slice(refusals + 1).forEach((text) => make("p", "", text, more));
    }
    if (about.ours) make("p", "page", `xopt list ${change.name}`, parent);
  }

  hover(pane, spot, event) {
    const tip = get("tip");
    const lines = spot.values ? this.edgeLines(pane, spot) : this.boxLines(pane, spot);
    tip.replaceChildren(...lines.map(([kind, text]) => make(kind, "", text)));
    tip.hidden = false;
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  }

  edgeLines(pane, edge) {
    return edge.values.slice(0, 8).flatMap((value) => [["b", pane.side.values[value].name], ["div", pane.side.values[value].kind]]);
  }

  boxLines(pane, { kind, ref }) {
    if (kind === ITEM_SCOPE) {
      const scope = pane.side.scopes[ref];
      return [["b", scope.path], ["div", `${scope.inside.length} nodes; click to ${pane.side.open.has(ref) ? "close" : "open"}`]];
    }
    const node = pane.side.nodes[ref];
    const shapes = (values) => values.map((value) => pane.side.values[value].kind);
    const lines = [["b", `${node.op} ${node.name}`]];
    shapes(node.inputs).slice(0, 8).forEach((text) => lines.push(["div", `reads ${text}`]));
    shapes(node.outputs).slice(0, 8).forEach((text) => lines.push(["div", `gives ${text}`]));
    if (node.attributes) lines.push(["div", node.attributes]);
    if (pane.side.costs[ref]) lines.push(["div", pane.side.costs[ref]]);
    if (pane.side.runs[ref]) lines.push(["div", pane.side.runs[ref].text]);
    return lines;
  }

  /* ------------------------------------------------ search */

  search() {
    const text = get("search").value.trim();
    this.found = [];
    for (const pane of this.panes) {
      const nodes = text ? pane.side.search(text) : [];
      pane.hits = new Set(nodes.map((node) => node.id));
      nodes.forEach((node) => this.found.push([pane, node.id]));
      pane.draw();
    }
    this.at = -1;
    const [before, after] = this.panes.map((pane) => pane.hits.size);
    const counts = this.isSingle ? `${after} found` : `${before} before, ${after} after`;
    get("found").textContent = text ? counts : "";
  }

  nextHit(step) {
    if (!this.found || !this.found.length) return;
    this.at = (this.at + step + this.found.length) % this.found.length;
    const [pane, id] = this.found[this.at];
    pane.side.reveal([id]);
    this.selectNode(pane, id);
    pane.reveal([id]);
  }
}

unpacked().then((data) => {
  window.report = new Page(data);
  window.report.clear();
  document.documentElement.dataset.ready = "";
});
