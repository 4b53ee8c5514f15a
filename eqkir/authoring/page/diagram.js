// The neighbourhood of a class, or the chosen program, as a layered drawing; and the same as text.
const MOST_BOXES = 150;
const MOST_LINES = 14;
const WIDEST = 38;
const diagram = { depth: 2, leaves: false, opened: new Set(), closed: new Set() };

const cut = (t) => (t.length > WIDEST ? `${t.slice(0, WIDEST - 1)}…` : t);
const isLeaf = (id) => {
  const c = classes.get(id);
  return c && c.alternatives.length === 1 && !c.alternatives[0].kids.length;
};

// The alternatives of a class that a drawing shows, as numbers.
function shownAlternatives(c, centre) {
  const all = diagram.opened.has(c.id) !== (c.id === centre);
  const one = Math.max(0, c.chosen);
  if (!all) return [one];
  return [...new Set([one, ...c.alternatives.keys()])].slice(0, MOST_LINES);
}

function gather(centre) {
  const found = new Map();
  const missing = new Set();
  const start = centre === null ? data.graph.root : centre;
  const below = (c) => (centre === null ? [Math.max(0, c.chosen)] : shownAlternatives(c, centre)).flatMap((j) => c.alternatives[j].kids);
  const visit = (first, depth, next, way) => {
    let edge = [first];
    for (let d = 0; edge.length && d <= depth; d += 1) {
      const then = [];
      for (const id of edge) {
        if (!classes.has(id) || (!diagram.leaves && id !== start && isLeaf(id))) continue;
        if (!found.has(id) && found.size >= MOST_BOXES) {
          missing.add(id);
          continue;
        }
        if (!found.has(id)) found.set(id, way);
        if (d < depth) then.push(...next(id));
      }
      edge = [...new Set(then)].filter((k) => !found.has(k));
    }
  };
  visit(start, centre === null ? Infinity : diagram.depth, (id) => (diagram.closed.has(id) ? [] : below(classes.get(id))), 'down');
  if (centre !== null)
    visit(start, diagram.depth, (id) => (diagram.closed.has(`up${id}`) ? [] : [...new Set(classes.get(id).users.map(([u]) => u))]), 'up');
  const boxes = [...found.keys()].map((id) => box(id, centre, found));
  const edges = boxes.flatMap((b) => b.lines.flatMap((l) => l.kids.map((k) => [b.id, k, l])));
  return { boxes, edges, missing: missing.size, start };
}

function box(id, centre, found) {
  const c = classes.get(id);
  let shown = centre === null && !diagram.opened.has(id) ? [Math.max(0, c.chosen)] : shownAlternatives(c, centre);
  if (found.get(id) === 'up' && shown.length === 1) {
    // a user: the alternatives that use something here
    const uses = [...c.alternatives.keys()].filter((j) => c.alternatives[j].kids.some((k) => found.has(k)));
    shown = [...new Set([...(c.chosen >= 0 ? shown : []), ...uses])].slice(0, MOST_LINES);
  }
  const lines = shown.map((j) => {
    const a = c.alternatives[j];
    const inside = a.kids
      .filter((k) => !diagram.leaves && isLeaf(k) && !found.has(k))
      .map((k) => alternativeText(classes.get(k).alternatives[0]).replace(/^F/, ''));
    return {
      j,
      text: cut(alternativeText(a)),
      full: alternativeText(a),
      inside: cut(inside.join(', ')),
      chosen: j === c.chosen,
      kids: [...new Set(a.kids)].filter((k) => found.has(k)),
    };
  });
  const head = `${name(id)} ${[c.sort, c.dtype].filter(Boolean).join(' ')}`;
  const rest = c.alternatives.length - lines.length;
  const rows = [{ text: cut(head), kind: 'head' }];
  if (c.origin) rows.push({ text: cut(c.origin), kind: 'quiet' });
  for (const l of lines) {
    rows.push({ text: `${l.chosen ? '★ ' : ''}${l.text}`, kind: '', line: l });
    if (l.inside) rows.push({ text: `  ${l.inside}`, kind: 'quiet' });
  }
  if (rest > 0) rows.push({ text: `+ ${count(rest, 'alternative')}`, kind: 'quiet' });
  const w = Math.max(90, 7.3 * Math.max(...rows.map((r) => r.text.length)) + 18, 7.3 * rows[0].text.length + 62);
  return { id, c, lines, rows, head: c.origin ? `${head} (${c.origin})` : head, w, h: 17 * rows.length + 12 };
}

function toggle(b, x, sign, title, act) {
  const press = (e) => {
    e.stopPropagation();
    act();
  };
  return s(
    'g',
    {
      class: 'toggle',
      role: 'button',
      tabindex: 0,
      'aria-label': `${title} of ${name(b.id)}`,
      transform: `translate(${x} 5)`,
      onclick: press,
      onkeydown: (e) => {
        if (e.key === 'Enter' || e.key === ' ') {
          e.preventDefault();
          press(e);
        }
      },
    },
    s('title', {}, title),
    s('rect', { width: 16, height: 15, rx: 3 }),
    s('text', { x: 8, y: 12, 'text-anchor': 'middle' }, sign),
  );
}

function drawn(g, centre, redraw) {
  const l = layered(
    g.boxes,
    g.edges.map(([a, b]) => [a, b]),
  );
  const byId = new Map(g.boxes.map((b) => [b.id, b]));
  const flip = (set, key) => {
    if (!set.delete(key)) set.add(key);
    redraw(key);
  };
  const paths = g.edges.map(([a, b, line]) => {
    const [p, q] = [l.places.get(a), l.places.get(b)];
    const [from, to] = [byId.get(a), byId.get(b)];
    const i = line.kids.indexOf(b);
    const x = p.x + (from.w * (i + 1)) / (line.kids.length + 1);
    const chosen = line.chosen && to.c.chosen >= 0;
    const ends =
      p.y < q.y ? [[x, p.y + from.h], ...l.bends(a, b), [q.x + to.w / 2, q.y]] : [[x, p.y], ...l.bends(a, b), [q.x + to.w / 2, q.y + to.h]];
    return s(
      'path',
      { class: `edge${chosen ? ' chosen' : ''}`, d: curve(ends), 'marker-end': chosen ? 'url(#tip-chosen)' : 'url(#tip)' },
      s('title', {}, `${name(a)} ${line.full} → ${name(b)}`),
    );
  });
  const nodes = g.boxes.map((b) => {
    const p = l.places.get(b.id);
    const open = () => go(`classes/${b.id}`);
    const below = b.lines.some((x) => x.kids.length) || diagram.closed.has(b.id);
    return s(
      'g',
      {
        class: `node${b.c.chosen >= 0 ? ' chosen' : ''}${b.id === centre ? ' centre' : ''}`,
        transform: `translate(${p.x} ${p.y})`,
        'data-class': b.id,
        role: 'link',
        tabindex: 0,
        'aria-label': `${b.head}: ${b.lines.map((x) => (x.chosen ? 'chosen ' : '') + x.full).join('; ')}`,
        onclick: (e) => {
          if (!e.defaultPrevented) open();
        },
        onkeydown: (e) => {
          if (e.key === 'Enter') open();
          else if (e.key === 'n') go(`diagram/${b.id}`);
          else if (e.key === ' ') {
            e.preventDefault();
            flip(diagram.closed, b.id);
          } else if (e.key === 'a') flip(diagram.opened, b.id);
        },
      },
      s('title', {}, `${b.head}\n${b.lines.map((x) => (x.chosen ? '★ ' : '') + x.full).join('\n')}`),
      s('rect', { class: 'box', width: b.w, height: b.h, rx: 6 }),
      b.rows.map((r, i) => s('text', { x: 9, y: 18 + 17 * i, class: r.kind || false, 'xml:space': 'preserve' }, r.text)),
      b.c.alternatives.length > 1
        ? toggle(b, b.w - (below ? 40 : 21), diagram.opened.has(b.id) !== (b.id === centre) ? '1' : '⋮', 'one or all alternatives', () =>
            flip(diagram.opened, b.id),
          )
        : null,
      below
        ? toggle(b, b.w - 21, diagram.closed.has(b.id) ? '+' : '−', 'show or hide what is below', () => flip(diagram.closed, b.id))
        : null,
    );
  });
  const tip = (id, kind) =>
    s(
      'marker',
      { id, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' },
      s('path', { d: 'M0 0 8 4 0 8z', fill: kind }),
    );
  const scene = s('g', {}, paths, nodes);
  const svg = s(
    'svg',
    {
      class: 'diagram',
      tabindex: 0,
      role: 'group',
      'aria-label': 'Diagram. Arrow keys move it, plus and minus zoom, 0 fits it. The same follows as text.',
    },
    s('defs', {}, tip('tip', 'var(--quiet)'), tip('tip-chosen', 'var(--chosen-line)')),
    scene,
  );
  return { svg, scene, width: l.width, height: l.height, places: l.places };
}

function asText(g) {
  return h(
    'details',
    { class: 'as-text' },
    h('summary', {}, 'The diagram as text'),
    h(
      'ul',
      {},
      g.boxes.map((b) =>
        h(
          'li',
          {},
          link(b.id),
          ` ${b.head.slice(name(b.id).length + 1)}`,
          h(
            'ul',
            {},
            b.lines.map((l) =>
              h(
                'li',
                {},
                l.chosen ? '★ chosen: ' : '',
                h('code', {}, l.full),
                l.kids.length ? ' → ' : '',
                l.kids.map((k) => [link(k), ' ']),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function diagramPage(argument) {
  const wanted = argument === undefined || argument === '' ? (data.choice.selected ? 'chosen' : String(data.graph.root)) : argument;
  const centre = wanted === 'chosen' ? null : Number(wanted);
  if (centre !== null && !classes.has(centre))
    return h('p', {}, `The page has no class ${name(wanted)}: it does not exist, or it is left out.`);
  const place_ = h('div', {});
  let control = null;
  const redraw = (focus) => {
    const g = gather(centre);
    const view = drawn(g, centre, (key) => {
      redraw(key);
    });
    control = movable(view, g.start);
    const left = g.missing
      ? ` ${count(g.missing, 'neighbouring class', 'neighbouring classes')} left out, ` +
        `at most ${MOST_BOXES} are drawn: collapse some, or open a class.`
      : '';
    place_.replaceChildren(
      h('p', { class: 'quiet', id: 'drawn' }, `${count(g.boxes.length, 'class', 'classes')}.${left}`),
      view.svg,
      asText(g),
    );
    requestAnimationFrame(control.home);
    if (focus !== undefined) place_.querySelector(`[data-class="${focus}"]`)?.focus({ preventScroll: true });
  };
  redraw();
  const button = (label, title, act) => h('button', { type: 'button', title, 'aria-label': title, onclick: act }, label);
  const of = h('input', {
    id: 'centre',
    size: 7,
    'aria-label': 'Class in the centre',
    value: centre === null ? '' : name(centre),
    placeholder: 'c12',
  });
  const depth = h(
    'select',
    {
      'aria-label': 'Steps from the centre',
      onchange: () => {
        diagram.depth = Number(depth.value);
        redraw();
      },
    },
    [1, 2, 3, 4].map((d) => h('option', { value: d, selected: d === diagram.depth }, `${d} ${d === 1 ? 'step' : 'steps'}`)),
  );
  const leaves = h('input', {
    type: 'checkbox',
    checked: diagram.leaves,
    onchange: () => {
      diagram.leaves = leaves.checked;
      redraw();
    },
  });
  return h(
    'section',
    {},
    h(
      'form',
      {
        class: 'bar',
        onsubmit: (e) => {
          e.preventDefault();
          go(`diagram/${of.value.replace(/^c/, '').trim() || 'chosen'}`);
        },
      },
      data.choice.selected ? h('a', { href: '#diagram/chosen', 'aria-current': centre === null ? 'page' : false }, 'chosen program') : null,
      h('span', {}, 'or neighbourhood of ', of),
      depth,
      h('button', { type: 'submit' }, 'Draw'),
      h('label', {}, leaves, ' leaves as boxes'),
      button('+', 'Zoom in', () => control.zoom(1.25)),
      button('−', 'Zoom out', () => control.zoom(0.8)),
      button('Fit', 'Fit the diagram', () => control.fit()),
      button('Expand all', 'Show everything that was hidden', () => {
        diagram.closed.clear();
        diagram.opened.clear();
        redraw();
      }),
    ),
    h(
      'p',
      { class: 'quiet' },
      'Drag or arrow keys move, wheel or + − zoom. A box is a class: click or Enter opens it, n draws its ' +
        'neighbourhood, space hides what is below, a shows all alternatives. ★ and green: chosen.',
    ),
    place_,
  );
}
