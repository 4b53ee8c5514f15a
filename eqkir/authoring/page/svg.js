// SVG elements, curves, and drawings that can be moved.
function s(tag, attributes, ...kids) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v);
  }
  e.append(...kids.flat(3).filter((x) => x !== null && x !== undefined && x !== ''));
  return e;
}

function curve(points) {
  let d = `M${points[0].join(' ')}`;
  for (let i = 1; i < points.length; i += 1) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    const mid = (y0 + y1) / 2;
    d += ` C${x0} ${mid} ${x1} ${mid} ${x1} ${y1}`;
  }
  return d;
}

// Pan and zoom of a drawing: pointer, wheel, keys and buttons.
function movable(view, focus) {
  let [x, y, k] = [0, 0, 1];
  const apply = () => view.scene.setAttribute('transform', `translate(${x} ${y}) scale(${k})`);
  const area = () => {
    const r = view.svg.getBoundingClientRect();
    return [r.width || 900, r.height || 500];
  };
  const zoom = (f, cx, cy) => {
    const [w, t] = area();
    const [px, py] = [cx ?? w / 2, cy ?? t / 2];
    const next = Math.min(4, Math.max(0.05, k * f));
    [x, y, k] = [px - ((px - x) * next) / k, py - ((py - y) * next) / k, next];
    apply();
  };
  const fit = () => {
    const [w, t] = area();
    k = Math.min(1.1, (w - 24) / view.width, (t - 24) / view.height);
    [x, y] = [(w - view.width * k) / 2, Math.max(12, (t - view.height * k) / 2)];
    apply();
  };
  const home = () => {
    // fits, or where that is too small to read, shows the focus at a readable size
    fit();
    const p = view.places.get(focus);
    if (k < 0.6 && p) {
      const [w, t] = area();
      k = 0.85;
      [x, y] = [w / 2 - (p.x + 80) * k, (focus === data.graph.root ? 24 : t / 4) - p.y * k];
      apply();
    }
  };
  let held = null;
  let moved = false;
  view.svg.addEventListener('pointerdown', (e) => {
    held = [e.clientX, e.clientY];
    moved = false;
  });
  view.svg.addEventListener('pointermove', (e) => {
    if (!held) return;
    if (!moved && Math.hypot(e.clientX - held[0], e.clientY - held[1]) < 4) return;
    if (!moved) view.svg.setPointerCapture(e.pointerId);
    moved = true;
    x += e.clientX - held[0];
    y += e.clientY - held[1];
    held = [e.clientX, e.clientY];
    apply();
  });
  for (const kind of ['pointerup', 'pointercancel'])
    view.svg.addEventListener(kind, () => {
      held = null;
    });
  view.svg.addEventListener(
    'click',
    (e) => {
      if (moved) {
        e.preventDefault();
        e.stopPropagation();
        moved = false;
      }
    },
    true,
  );
  view.svg.addEventListener(
    'wheel',
    (e) => {
      e.preventDefault();
      const r = view.svg.getBoundingClientRect();
      zoom(Math.exp(-e.deltaY / 400), e.clientX - r.left, e.clientY - r.top);
    },
    { passive: false },
  );
  const move = (dx, dy) => {
    x += dx;
    y += dy;
    apply();
  };
  const keys = {
    ArrowLeft: () => move(60, 0),
    ArrowRight: () => move(-60, 0),
    ArrowUp: () => move(0, 60),
    ArrowDown: () => move(0, -60),
    '+': () => zoom(1.25),
    '=': () => zoom(1.25),
    '-': () => zoom(0.8),
    0: fit,
  };
  view.svg.addEventListener('keydown', (e) => {
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      keys[e.key]();
    }
  });
  return { zoom, fit, home };
}
