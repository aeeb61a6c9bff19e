/* The picture of one side: draws the visible part, moves and zooms, and finds the box under the pointer. */

const SVG = "http://www.w3.org/2000/svg";
const FAR = 0.34;
const STATES = ["kept", "gone", "folded", "gone", "gone"];

function element(name, attributes = {}, text = "") {
  const child = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) child.setAttribute(key, value);
  if (text) child.textContent = text;
  return child;
}

function rectangle({ x, y, w, h }) {
  return `M${x.toFixed(1)} ${y.toFixed(1)}h${w.toFixed(1)}v${h.toFixed(1)}h${(-w).toFixed(1)}z`;
}

class Pane {
  constructor(svg, side, links, on) {
    this.svg = svg;
    this.side = side;
    this.links = links;
    this.on = on;
    this.view = element("g");
    this.svg.append(this.view);
    this.marked = new Set();
    this.hits = new Set();
    this.cursor = null;
    this.scale = 1;
    this.x = this.y = 0;
    this.listen();
    this.home();
  }

  /* ------------------------------------------------ view */

  get size() {
    return [this.svg.clientWidth || 600, this.svg.clientHeight || 400];
  }

  /* Shows the whole picture if its labels can be read, else its beginning. */
  home() {
    const [width, height] = this.size;
    const [w, h] = [this.side.width, this.side.height];
    const whole = Math.min((width - 24) / w, (height - 24) / h, 1);
    this.scale = Math.max(whole, Math.min(0.75, Math.max(0.5, (width - 24) / w)));
    const first = this.side.boxes.find(({ kind }) => kind <= ITEM_SCOPE);
    const centered = width / 2 - (first ? first.x + first.w / 2 : 0) * this.scale;
    const free = width - w * this.scale;
    this.x = free >= 0 ? free / 2 : Math.max(free - 12, Math.min(12, centered));
    this.y = h * this.scale <= height ? (height - h * this.scale) / 2 : 28;
    this.draw();
  }

  fit() {
    this.show({ x: 0, y: 0, w: this.side.width, h: this.side.height }, 1);
  }

  zoom(factor, at = this.size.map((length) => length / 2)) {
    const scale = Math.max(0.02, Math.min(3, this.scale * factor));
    this.x = at[0] - ((at[0] - this.x) * scale) / this.scale;
    this.y = at[1] - ((at[1] - this.y) * scale) / this.scale;
    this.scale = scale;
    this.moved();
  }

  move(x, y) {
    this.x += x;
    this.y += y;
    this.moved();
  }

  moved() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  show(box, most = 1) {
    const [width, height] = this.size;
    const fitting = Math.min((width - 60) / box.w, (height - 60) / box.h);
    this.scale = Math.max(0.02, Math.min(most, fitting));
    this.x = width / 2 - (box.x + box.w / 2) * this.scale;
    this.y = height / 2 - (box.y + box.h / 2) * this.scale;
    this.draw();
  }

  /* Brings nodes into view, opening the scopes around them. */
  reveal(ids, isKept = false) {
    this.side.reveal(ids);
    const spots = ids.map((id) => this.side.spotOf(id)).filter(Boolean);
    if (!spots.length) return this.draw();
    const x = Math.min(...spots.map((spot) => spot.x));
    const y = Math.min(...spots.map((spot) => spot.y));
    const w = Math.max(...spots.map((spot) => spot.x + spot.w)) - x;
    const h = Math.max(...spots.map((spot) => spot.y + spot.h)) - y;
    return isKept ? this.draw() : this.show({ x, y, w, h }, 1);
  }

  /* ------------------------------------------------ drawing */

  stateOf(id) {
    if (this.side.isBefore) return STATES[this.links.fates[id]];
    return this.links.made[id] >= 0 ? "new" : "kept";
  }

  draw() {
    const [width, height] = this.size;
    const [left, top] = [-this.x / this.scale - 40, -this.y / this.scale - 40];
    const [right, bottom] = [left + width / this.scale + 80, top + height / this.scale + 80];
    const isIn = ({ x, y, w, h }) => x <= right && x + w >= left && y <= bottom && y + h >= top;
    this.view.setAttribute("transform", `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)}) scale(${this.scale.toFixed(4)})`);
    this.svg.classList.toggle("dim", this.marked.size > 0);
    const parts = document.createDocumentFragment();
    for (const frame of this.side.frames) if (isIn(frame)) parts.append(this.frame(frame));
    const isFar = this.scale < FAR;
    this.drawEdges(parts, isFar, [left, top, right, bottom]);
    const spots = this.side.boxes.filter(isIn);
    if (isFar) this.drawFar(parts, spots);
    else for (const spot of spots) parts.append(this.box(spot));
    this.view.replaceChildren(parts);
  }

  drawFar(parts, spots) {
    const paths = new Map();
    for (const spot of spots) {
      const kind = this.classOf(spot);
      paths.set(kind, (paths.get(kind) || "") + rectangle(spot));
    }
    for (const [kind, path] of paths) parts.append(element("path", { d: path, class: `far ${kind}` }));
  }

  drawEdges(parts, isFar, [left, top, right, bottom]) {
    let plain = "";
    for (const edge of this.side.edges) {
      const [[x0, y0], [x1, y1]] = [edge.points[0], edge.points[edge.points.length - 1]];
      if (Math.max(y0, y1) < top || Math.min(y0, y1) > bottom || Math.max(x0, x1) < left - 400 || Math.min(x0, x1) > right + 400) continue;
      const isStrong = this.isCursor(edge.low) || this.isCursor(edge.high);
      if (edge.isLong && !isStrong) {
        plain += `M${x0.toFixed(1)} ${y0.toFixed(1)}v9M${x1.toFixed(1)} ${(y1 - 9).toFixed(1)}v9`;
      } else if (isFar && !isStrong) {
        plain += `M${x0.toFixed(1)} ${y0.toFixed(1)}L${x1.toFixed(1)} ${y1.toFixed(1)}`;
      } else {
        const line = element("path", { d: pathOf(edge.points), class: isStrong ? "edge strong" : "edge" });
        line.spot = edge;
        parts.append(line);
      }
    }
    if (plain) parts.append(element("path", { d: plain, class: "edge" }));
  }

  frame(spot) {
    const group = element("g", { class: "frame", "data-scope": this.side.scopes[spot.ref].path });
    group.append(element("rect", { x: spot.x, y: spot.y, width: spot.w, height: spot.h, rx: 6 }));
    if (this.scale >= 0.2) group.append(element("text", { x: spot.x + 10, y: spot.y + 15 }, `− ${this.side.scopes[spot.ref].label}`));
    return group;
  }

  classOf({ kind, ref }) {
    if (kind === ITEM_NODE) {
      const state = this.stateOf(ref);
      const run = this.side.runs[ref];
      return `node ${state}${run ? ` ${run.kind}` : ""}${this.classesOf([ref])}${this.isCursor({ kind, ref }) ? " focus" : ""}`;
    }
    if (kind !== ITEM_SCOPE) return "port";
    return `scope${this.classesOf(this.side.scopes[ref].inside)}${this.isCursor({ kind, ref }) ? " focus" : ""}`;
  }

  classesOf(ids) {
    return (ids.some((id) => this.marked.has(id)) ? " marked" : "") + (ids.some((id) => this.hits.has(id)) ? " hit" : "");
  }

  isCursor({ kind, ref }) {
    return this.cursor !== null && this.cursor.kind === kind && this.cursor.ref === ref;
  }

  box(spot) {
    const { kind, ref, x, y, w, h } = spot;
    const group = element("g", { class: this.classOf(spot) });
    if (kind === ITEM_NODE) {
      group.dataset.node = ref;
      group.append(element("rect", { x, y, width: w, height: h, rx: 4 }));
      group.append(element("text", { x: x + w / 2, y: y + h / 2 + 4 }, this.side.nodes[ref].op));
      if (this.side.runs[ref]) group.append(...this.runOf(this.side.runs[ref], spot));
    } else if (kind === ITEM_SCOPE) {
      const scope = this.side.scopes[ref];
      group.dataset.scope = scope.path;
      group.append(element("rect", { x: x + 3, y: y + 3, width: w, height: h, rx: 6, class: "shadow" }));
      group.append(element("rect", { x, y, width: w, height: h, rx: 6 }));
      group.append(element("text", { x: x + w / 2, y: y + 16 }, `+ ${shortened(scope.label, 28)}`));
      group.append(this.counts(scope, x + w / 2, y + 30));
    } else if (w > 6) {
      group.append(element("rect", { x, y, width: w, height: h, rx: 10 }));
      group.append(element("text", { x: x + w / 2, y: y + 14 }, shortened(this.side.values[ref].name, 24)));
    } else {
      group.append(element("circle", { cx: x + 3, cy: y + 3, r: 2.5 }));
    }
    return group;
  }

  /* Where a node runs: a bar at its left, and its partition at its right. */
  runOf({ partition }, { x, y, w, h }) {
    const parts = [element("path", { d: `M${x + 2.5} ${y + 4}v${h - 8}`, class: "run" })];
    if (partition) parts.push(element("text", { x: x + w - 3, y: y + 9, class: "partition" }, `${partition}`));
    return parts;
  }

  counts(scope, x, y) {
    const changed = scope.inside.filter((id) => this.stateOf(id) !== "kept").length;
    const label = element("text", { x, y, class: "counts" });
    label.append(element("tspan", {}, `${scope.inside.length} nodes`));
    if (changed) {
      label.append(element("tspan", { class: this.side.isBefore ? "gone" : "new", dx: 5 }, `${this.side.isBefore ? "−" : "+"}${changed}`));
    }
    return label;
  }

  /* ------------------------------------------------ pointer and keyboard */

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const at = [event.clientX - box.left, event.clientY - box.top];
    return [at, [(at[0] - this.x) / this.scale, (at[1] - this.y) / this.scale]];
  }

  listen() {
    let held = null;
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.004)), this.point(event)[0]);
      else if (event.shiftKey && !event.deltaX) this.move(-event.deltaY, 0);
      else this.move(-event.deltaX, -event.deltaY);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = { x: event.clientX, y: event.clientY, far: 0 };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!held) return this.hover(event);
      held.far += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
      this.move(event.clientX - held.x, event.clientY - held.y);
      [held.x, held.y] = [event.clientX, event.clientY];
      return this.on.leave();
    });
    this.svg.addEventListener("pointerup", (event) => {
      const wasClick = held && held.far < 5;
      held = null;
      if (wasClick) this.click(this.side.at(...this.point(event)[1]));
    });
    this.svg.addEventListener("pointercancel", () => { held = null; });
    this.svg.addEventListener("pointerleave", () => this.on.leave());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  hover(event) {
    const spot = this.side.at(...this.point(event)[1]);
    this.svg.classList.toggle("over", Boolean(spot));
    if (spot) this.on.hover(this, spot, event);
    else if (event.target.spot) this.on.hover(this, event.target.spot, event);
    else this.on.leave();
  }

  click(spot) {
    if (!spot) this.on.clear();
    else if (spot.kind === ITEM_SCOPE) this.on.toggle(this, spot.ref);
    else this.on.select(this, spot.ref);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const way = ways[event.key];
    if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (way && event.shiftKey) this.move(-160 * way[0], -160 * way[1]);
    else if (way) this.walk(way);
    else if (event.key === "c" && this.cursor) this.on.close(this);
    else if ((event.key === "Enter" || event.key === " ") && this.cursor) this.click(this.cursor);
    else return;
    event.preventDefault();
  }

  /* Moves the cursor to the nearest box in a direction. */
  walk([dx, dy]) {
    const from = this.cursor && this.spotOf(this.cursor);
    const middle = (spot) => [spot.x + spot.w / 2, spot.y + spot.h / 2];
    let [best, least] = [null, Infinity];
    for (const spot of this.side.boxes) {
      if (spot.kind > ITEM_SCOPE) continue;
      const [x, y] = from ? [middle(spot)[0] - middle(from)[0], middle(spot)[1] - middle(from)[1]] : middle(spot);
      const along = from ? x * dx + y * dy : x + y;
      const cost = along + 3 * (from ? Math.abs(x * dy) + Math.abs(y * dx) : 0);
      if (along > 1 && cost < least) [best, least] = [spot, cost];
    }
    if (best) this.on.walked(this, best);
  }

  spotOf({ kind, ref }) {
    return kind === ITEM_NODE ? this.side.spotOf(ref) : this.side.byScope.get(ref);
  }

  /* Moves the picture so that a box is in view. */
  follow(spot) {
    const [width, height] = this.size;
    const [x, y] = [spot.x * this.scale + this.x, spot.y * this.scale + this.y];
    if (x < 20 || x + spot.w * this.scale > width - 20) this.x += width / 2 - x;
    if (y < 20 || y + spot.h * this.scale > height - 20) this.y += height / 2 - y;
    this.draw();
  }
}
