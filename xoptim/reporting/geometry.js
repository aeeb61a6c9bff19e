"use strict";

/* One side of the report: its nodes, its scopes, and its layout while some scopes are open. */

const UNIT = 112, NODE = 24, CLOSED = 38, GAP = 14, RISE = 26, PAD = 12, TITLE = 20;
const [ITEM_NODE, ITEM_SCOPE, ITEM_ENTRY, ITEM_EXIT] = [0, 1, 2, 3];

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

function widthOf(text, bold = false) {
  const key = (bold ? "*" : "") + text;
  if (!widths.has(key)) {
    ruler.font = `${bold ? 600 : 500} 12px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

function shortened(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

class Side {
  constructor(data, isBefore) {
    this.isBefore = isBefore;
    this.words = data.words;
    this.values = data.values.map(([name, kind]) => ({ name, kind: data.words[kind] }));
    this.nodes = data.nodes.map(([op, name, inputs, outputs, attributes, isConstant], id) => ({
      id, op: data.words[op], name, inputs, outputs, attributes: data.words[attributes], isConstant, scope: -1,
    }));
    this.scopes = data.scopes.map(([path, label, parent, nodes], id) => ({
      id, path: path.join("/"), label, parent, nodes, inside: [], box: data.boxes[id],
    }));
    const { nodes = [], texts = [] } = data.runs;
    this.costs = data.costs || [];
    this.runs = nodes.map((run) => run && { kind: texts[run[0]][0], text: texts[run[0]][1], partition: run[1] });
    this.producer = new Map();
    this.readers = new Map();
    for (const node of this.nodes) {
      for (const value of node.outputs) this.producer.set(value, node.id);
      for (const value of node.inputs) {
        if (!this.readers.has(value)) this.readers.set(value, []);
        this.readers.get(value).push(node.id);
      }
    }
    for (const scope of this.scopes) {
      for (const id of scope.nodes) this.nodes[id].scope = scope.id;
    }
    for (const scope of [...this.scopes].reverse()) {
      scope.inside.push(...scope.nodes);
      if (scope.parent >= 0) this.scopes[scope.parent].inside.push(...scope.inside);
    }
    this.open = new Set([0]);
    this.openFirst(60);
    this.arrange();
  }

  /* Opens scopes from outside to inside while few boxes are in view. */
  openFirst(most) {
    const waiting = [0];
    let shown = this.scopes[0].box.items.length;
    while (waiting.length) {
      const here = waiting.shift();
      for (const [kind, id] of this.scopes[here].box.items) {
        if (kind !== ITEM_SCOPE) continue;
        const more = this.scopes[id].box.items.length;
        const isOnly = this.scopes[here].box.items.filter(([item]) => item < ITEM_ENTRY).length === 1;
        if (isOnly || shown + more <= most) {
          shown += more;
          this.open.add(id);
          waiting.push(id);
        }
      }
    }
  }

  chain(scope) {
    const scopes = [];
    for (let id = scope; id >= 0; id = this.scopes[id].parent) scopes.push(id);
    return scopes;
  }

  /* Opens the scopes around nodes; returns whether anything changed. */
  reveal(ids) {
    const before = this.open.size;
    for (const id of ids) {
      if (this.nodes[id].scope >= 0) this.chain(this.nodes[id].scope).forEach((scope) => this.open.add(scope));
    }
    if (this.open.size !== before) this.arrange();
    return this.open.size !== before;
  }

  toggle(scope, open = !this.open.has(scope)) {
    if (open) this.chain(scope).forEach((id) => this.open.add(id));
    else this.open.delete(scope);
    this.arrange();
  }

  arrange() {
    this.boxes = [];
    this.frames = [];
    this.edges = [];
    this.byNode = new Map();
    this.byScope = new Map();
    const size = this.measure(0);
    this.width = size.w;
    this.height = size.h;
    this.put(0, 0, 0);
  }

  /* The size of the inside of a scope; stores the positions of its items. */
  measure(id) {
    const scope = this.scopes[id];
    const isRoot = id === 0;
    scope.sizes = scope.box.items.map(([kind, ref]) => this.sizeOf(kind, ref, isRoot));
    const extra = new Map();
    const tall = [];
    scope.box.items.forEach(([, , row, column], place) => {
      const { w, h } = scope.sizes[place];
      extra.set(column, Math.max(extra.get(column) || 0, w + GAP - UNIT));
      tall[row] = Math.max(tall[row] || 0, h);
    });
    scope.across = stretched(extra);
    scope.tops = [];
    let y = isRoot ? PAD : TITLE + PAD / 2;
    for (let row = 0; row < tall.length; row += 1) {
      scope.tops.push([y, tall[row] || 0]);
      y += (tall[row] || 0) + RISE + (tall[row] > 200 ? RISE : 0);
    }
    let [left, right] = [0, 0];
    scope.centers = scope.box.items.map(([, , , column], place) => {
      const x = scope.across(column);
      left = Math.min(left, x - scope.sizes[place].w / 2);
      right = Math.max(right, x + scope.sizes[place].w / 2);
      return x;
    });
    for (const [, , , bends] of scope.box.edges) {
      for (let at = 1; at < bends.length; at += 2) {
        left = Math.min(left, scope.across(bends[at]));
        right = Math.max(right, scope.across(bends[at]));
      }
    }
    scope.left = left - PAD;
    const label = isRoot ? 0 : widthOf(scope.label, true) + 60;
    scope.w = Math.max(right - left + 2 * PAD, label);
    scope.h = y - RISE + PAD;
    return { w: scope.w, h: scope.h };
  }

  sizeOf(kind, ref, isRoot) {
    if (kind === ITEM_NODE) return { w: widthOf(this.nodes[ref].op) + 20, h: NODE };
    if (kind === ITEM_SCOPE) {
      if (this.open.has(ref)) return this.measure(ref);
      return { w: Math.max(widthOf(shortened(this.scopes[ref].label, 28), true) + 30, 104), h: CLOSED };
    }
    return isRoot ? { w: widthOf(shortened(this.values[ref].name, 24)) + 20, h: 20 } : { w: 6, h: 6 };
  }

  /* Places everything inside an open scope in the picture. */
  put(id, x, y) {
    const scope = this.scopes[id];
    const shift = x - scope.left;
    const { box, tops, centers, sizes } = scope;
    scope.ports = new Map();
    const spots = box.items.map(([kind, ref, row], place) => {
      const { w, h } = sizes[place];
      const spot = { kind, ref, x: shift + centers[place] - w / 2, y: y + tops[row][0] + (tops[row][1] - h) / 2, w, h, id };
      if (kind === ITEM_SCOPE && this.open.has(ref)) {
        this.frames.push(spot);
        this.put(ref, spot.x, spot.y);
      } else {
        this.boxes.push(spot);
        if (kind === ITEM_NODE) this.byNode.set(ref, spot);
        if (kind >= ITEM_ENTRY) scope.ports.set(`${kind}:${ref}`, spot.x + w / 2);
      }
      if (kind === ITEM_SCOPE) this.byScope.set(ref, spot);
      return spot;
    });
    for (const [start, end, values, bends] of box.edges) {
      const [low, high] = [spots[start], spots[end]];
      const points = [];
      for (let at = 0; at < bends.length; at += 2) {
        const [top, height] = tops[bends[at]];
        points.push([shift + scope.across(bends[at + 1]), y + top, y + top + height]);
      }
      if (start > end) points.reverse();
      const isLong = !bends.length && Math.abs(box.items[end][2] - box.items[start][2]) > 1;
      this.edges.push({
        low, high, values, isLong: isLong || start > end,
        points: [[this.dock(low, ITEM_EXIT, values[0]), low.y + low.h], ...points, [this.dock(high, ITEM_ENTRY, values[0]), high.y]],
      });
    }
  }

  /* Where the edge of a value meets a box: at its port where the scope is open. */
  dock(spot, kind, value) {
    const isOpen = spot.kind === ITEM_SCOPE && this.open.has(spot.ref);
    const port = isOpen ? this.scopes[spot.ref].ports.get(`${kind}:${value}`) : undefined;
    return port === undefined ? spot.x + spot.w / 2 : port;
  }

  /* The box that shows a node: its own, or the innermost closed scope around it. */
  spotOf(id) {
    if (this.byNode.has(id)) return this.byNode.get(id);
    const scopes = this.nodes[id].scope < 0 ? [] : this.chain(this.nodes[id].scope);
    const closed = scopes.filter((scope) => !this.open.has(scope)).pop();
    return closed === undefined ? undefined : this.byScope.get(closed);
  }

  at(x, y) {
    const holds = (spot) => x >= spot.x && x <= spot.x + spot.w && y >= spot.y && y <= spot.y + spot.h;
    const box = this.boxes.find((spot) => spot.kind !== ITEM_ENTRY && spot.kind !== ITEM_EXIT && holds(spot));
    if (box) return box;
    return this.frames.find((spot) => holds(spot) && y <= spot.y + TITLE);
  }

  /* The nodes that match a text: operator equal to it first, then operators, then names that contain it. */
  search(text) {
    const query = text.toLowerCase();
    const rank = (node) => {
      const op = node.op.toLowerCase();
      return op === query ? 0 : op.includes(query) ? 1 : node.name.toLowerCase().includes(query) ? 2 : 3;
    };
    const nodes = this.nodes.filter((node) => !node.isConstant && rank(node) < 3);
    return nodes.sort((a, b) => rank(a) - rank(b) || a.id - b.id);
  }
}

/* Positions for columns: a wide box moves everything to its left and right apart. */
function stretched(extra) {
  const columns = [...extra].filter(([, more]) => more > 0).sort((a, b) => a[0] - b[0]);
  const sums = [0];
  for (const [, more] of columns) sums.push(sums[sums.length - 1] + more);
  return (column) => {
    let [low, high] = [0, columns.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (columns[middle][0] < column) low = middle + 1;
      else high = middle;
    }
    const own = low < columns.length && columns[low][0] === column ? columns[low][1] / 2 : 0;
    return column * UNIT + sums[low] + own;
  };
}

/* The path of an edge: curves between layers, straight lines through them. */
function pathOf(points) {
  let [x, y] = points[0];
  let path = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const [nextX, top, bottom = top] of points.slice(1)) {
    const bend = Math.max(8, Math.min(40, Math.abs(top - y) / 2));
    path += `C${x.toFixed(1)} ${(y + bend).toFixed(1)} ${nextX.toFixed(1)} ${(top - bend).toFixed(1)} ${nextX.toFixed(1)} ${top.toFixed(1)}`;
    if (bottom !== top) path += `V${bottom.toFixed(1)}`;
    [x, y] = [nextX, bottom];
  }
  return path;
}
