// A layered drawing: boxes [{ id, w, h }] and edges [[from, to]] -> places of boxes and bends of edges. Cycles are drawn upwards.
function layered(boxes, edges, gap = 26, between = 54) {
  const at = new Map(boxes.map((b, i) => [b.id, i]));
  const out = boxes.map(() => []);
  const pairs = [...new Set(edges.filter(([a, b]) => a !== b).map(([a, b]) => `${at.get(a)} ${at.get(b)}`))].map((x) =>
    x.split(' ').map(Number),
  );
  pairs.forEach(([a, b]) => out[a].push(b));
  const forward = acyclic(boxes.length, out);
  const rank = ranks(boxes.length, forward);

  // Cells: boxes, and one dummy for each layer that an edge crosses.
  const cells = boxes.map((b, i) => ({ w: b.w, h: b.h, layer: rank[i], up: [], down: [] }));
  const chains = new Map();
  for (const [a, b] of forward) {
    let last = a;
    const chain = [];
    for (let layer = rank[a] + 1; layer < rank[b]; layer += 1) {
      cells.push({ w: 8, h: 0, layer, up: [last], down: [] });
      const dummy = cells.length - 1;
      cells[last].down.push(dummy);
      chain.push(dummy);
      last = dummy;
    }
    cells[last].down.push(b);
    cells[b].up.push(last);
    chains.set(`${a} ${b}`, chain);
  }
  const layers = [];
  cells.forEach((c, i) => {
    (layers[c.layer] ||= []).push(i);
  });
  order(layers, cells);
  place(layers, cells, gap);
  let y = 0;
  for (const layer of layers) {
    const tall = Math.max(...layer.map((i) => cells[i].h));
    for (const i of layer) {
      cells[i].y = y;
      cells[i].tall = tall;
    }
    y += tall + between;
  }
  const bend = (a, b) => {
    const flipped = !chains.has(`${a} ${b}`);
    const chain = chains.get(flipped ? `${b} ${a}` : `${a} ${b}`) || [];
    const points = chain.map((i) => [
      [cells[i].x, cells[i].y],
      [cells[i].x, cells[i].y + cells[i].tall],
    ]);
    return flipped ? points.reverse().map((p) => p.slice().reverse()) : points;
  };
  return {
    places: new Map(boxes.map((b, i) => [b.id, { x: cells[i].x - b.w / 2, y: cells[i].y }])),
    bends: (a, b) => bend(at.get(a), at.get(b)).flat(),
    width: Math.max(1, ...cells.map((c) => c.x + c.w / 2)),
    height: Math.max(1, y - between),
  };
}

// Edges with those that close a cycle turned round (depth first from the first box).
function acyclic(n, out) {
  const state = new Uint8Array(n);
  const kept = [];
  for (let root = 0; root < n; root += 1) {
    if (state[root]) continue;
    const stack = [[root, 0]];
    state[root] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      const [a, i] = top;
      if (i === out[a].length) {
        state[a] = 2;
        stack.pop();
        continue;
      }
      top[1] += 1;
      const b = out[a][i];
      kept.push(state[b] === 1 ? [b, a] : [a, b]);
      if (!state[b]) {
        state[b] = 1;
        stack.push([b, 0]);
      }
    }
  }
  const seen = new Set();
  return kept.filter(([a, b]) => a !== b && !seen.has(`${a} ${b}`) && seen.add(`${a} ${b}`));
}

// The longest way from a box that nothing points at; sources move down to what they point at.
function ranks(n, edges) {
  const rank = new Array(n).fill(0);
  const into = new Array(n).fill(0);
  const out = Array.from({ length: n }, () => []);
  for (const [a, b] of edges) {
    out[a].push(b);
    into[b] += 1;
  }
  const left = into.slice();
  const queue = left
    .map((d, i) => [d, i])
    .filter(([d]) => !d)
    .map(([, i]) => i);
  for (let q = 0; q < queue.length; q += 1) {
    for (const b of out[queue[q]]) {
      rank[b] = Math.max(rank[b], rank[queue[q]] + 1);
      left[b] -= 1;
      if (!left[b]) queue.push(b);
    }
  }
  for (let i = 0; i < n; i += 1) if (!into[i] && out[i].length) rank[i] = Math.min(...out[i].map((b) => rank[b])) - 1;
  return rank;
}

function order(layers, cells) {
  const position = new Array(cells.length).fill(0);
  layers.forEach((layer) =>
    layer.forEach((c, i) => {
      position[c] = i;
    }),
  );
  for (let sweep = 0; sweep < 10; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : layers.slice().reverse()) {
      const middle = new Map(
        layer.map((c) => {
          const near = down ? cells[c].up : cells[c].down;
          return [c, near.length ? near.reduce((s, k) => s + position[k], 0) / near.length : position[c]];
        }),
      );
      layer.sort((a, b) => middle.get(a) - middle.get(b) || position[a] - position[b]);
      layer.forEach((c, i) => {
        position[c] = i;
      });
    }
  }
}

// Centres: as near to the mean of the neighbours as the order and the gaps allow.
function place(layers, cells, gap) {
  for (const layer of layers) {
    let x = 0;
    for (const c of layer) {
      cells[c].x = x + cells[c].w / 2;
      x += cells[c].w + gap;
    }
  }
  for (let sweep = 0; sweep < 12; sweep += 1) {
    for (const layer of sweep % 2 ? layers.slice().reverse() : layers) {
      const want = layer.map((c) => {
        const near = sweep % 2 ? cells[c].down : cells[c].up;
        return near.length ? near.reduce((s, k) => s + cells[k].x, 0) / near.length : cells[c].x;
      });
      const apart = (i) => (cells[layer[i - 1]].w + cells[layer[i]].w) / 2 + gap;
      const right = want.slice();
      for (let i = 1; i < right.length; i += 1) right[i] = Math.max(right[i], right[i - 1] + apart(i));
      const left = want.slice();
      for (let i = left.length - 2; i >= 0; i -= 1) left[i] = Math.min(left[i], left[i + 1] - apart(i + 1));
      layer.forEach((c, i) => {
        cells[c].x = (left[i] + right[i]) / 2;
      });
    }
  }
  const least = Math.min(...cells.map((c) => c.x - c.w / 2));
  for (const c of cells) c.x -= least;
}
