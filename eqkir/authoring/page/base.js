// Elements, the data, what follows from it, and where the page is (its address after '#').
const data = JSON.parse(document.getElementById('data').textContent);

function h(tag, attributes, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...kids.flat(3).filter((x) => x !== null && x !== undefined && x !== ''));
  return e;
}

const text = (i) => data.texts[i];
function number(x) {
  if (x === null || x === undefined) return '–';
  const plain = x === 0 || (Math.abs(x) < 1e9 && Math.abs(x) >= 1e-4);
  return plain ? Number(x).toLocaleString('en', { maximumSignificantDigits: 6 }) : Number(x).toExponential(3);
}
const percent = (part, whole) => (whole ? `${Number((100 * part) / whole).toLocaleString('en', { maximumSignificantDigits: 3 })} %` : '');
const count = (n, one, many) => `${n.toLocaleString('en')} ${n === 1 ? one : many || `${one}s`}`;

// A class: { id, sort, dtype, origin, chosen (-1: not), share, users: [[class, alternative]], alternatives }; an alternative: { op,
// attributes, space, place, by, kids, weight, verdict, kind, added }.
const classes = new Map();
for (const [id, sort, dtype, origin, alternatives] of data.classes) {
  classes.set(id, {
    id,
    sort: text(sort),
    dtype: text(dtype),
    origin: text(origin),
    chosen: -1,
    share: null,
    users: [],
    alternatives: alternatives.map(([op, attributes, space, place, by, kids, weight, verdict, kind, added]) => ({
      op: text(op),
      attributes: text(attributes),
      space: text(space),
      place: text(place),
      by: text(by),
      kids,
      weight,
      verdict,
      kind,
      added,
    })),
  });
}
for (const [c, j, share] of data.chosen) Object.assign(classes.get(c), { chosen: j, share });
for (const c of classes.values()) {
  c.alternatives.forEach((a, j) => {
    for (const k of new Set(a.kids)) if (classes.has(k)) classes.get(k).users.push([c.id, j]);
  });
}

const name = (c) => `c${c}`;
const link = (c) =>
  classes.has(c)
    ? h('a', { href: `#classes/${c}` }, name(c))
    : h('span', { class: 'quiet', title: 'This class is left out of the page' }, `${name(c)} (left out)`);
const alternativeText = (a) => [a.op, a.by ? `by ${a.by}` : '', a.attributes].filter(Boolean).join(' ');
const representative = (c) => c.alternatives[Math.max(0, c.chosen)];
const brief = (c) => [c.sort, c.dtype, alternativeText(representative(c))].filter(Boolean).join(' ');
const say = (message) => {
  document.getElementById('status').textContent = message;
};

// A list that shows `step` entries, says how many there are, and shows more on request.
function portion(entries, step, make, wrap) {
  const box = wrap();
  const said = h('span', {});
  const more = h('button', { type: 'button', onclick: () => extend() }, '');
  let shown = 0;
  function extend() {
    const next = entries.slice(shown, shown + step);
    box.append(...next.map(make));
    shown += next.length;
    said.textContent = shown < entries.length ? `${shown.toLocaleString('en')} of ${entries.length.toLocaleString('en')} shown. ` : '';
    more.textContent = `Show ${Math.min(step, entries.length - shown)} more`;
    more.hidden = shown >= entries.length;
  }
  extend();
  return { box, foot: h('p', { class: 'quiet' }, said, more) };
}

function facts(pairs) {
  return h(
    'dl',
    { class: 'facts' },
    pairs.filter(([, v]) => v !== '' && v !== null && v !== undefined).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]),
  );
}

function decoded(t) {
  try {
    return decodeURIComponent(t);
  } catch {
    return t;
  }
}

const go = (where) => {
  location.hash = where;
};
