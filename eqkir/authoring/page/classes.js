// Search, and one class: its alternatives, why they were not chosen, and who uses it.
const FIELDS = {
  op: (c, v) => c.alternatives.some((a) => a.op.toLowerCase().includes(v)),
  by: (c, v) => c.alternatives.some((a) => a.by.toLowerCase().includes(v)),
  origin: (c, v) => c.origin.toLowerCase().includes(v),
  sort: (c, v) => c.sort.toLowerCase() === v,
  dtype: (c, v) => c.dtype.toLowerCase() === v,
  label: (c, v) => c.alternatives.some((a) => a.space.toLowerCase().includes(v)),
  loop: (c, v) => c.alternatives.some((a) => a.place.toLowerCase().includes(v)),
  is: (c, v) =>
    v === 'chosen'
      ? c.chosen >= 0
      : v === 'alternatives'
        ? c.alternatives.length > 1
        : v === 'illegal'
          ? c.alternatives.some((a) => a.weight === null || a.weight === undefined)
          : false,
};

function haystack(c) {
  if (c.words === undefined) {
    c.words = [name(c.id), c.sort, c.dtype, c.origin, ...c.alternatives.flatMap((a) => [a.op, a.by, a.attributes, a.space, a.place])]
      .join(' ')
      .toLowerCase();
  }
  return c.words;
}

function matching(query) {
  const tests = query
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map((t) => {
      const at = t.indexOf(':');
      const field = at > 0 ? FIELDS[t.slice(0, at)] : undefined;
      if (field && Object.hasOwn(FIELDS, t.slice(0, at))) return (c) => field(c, t.slice(at + 1));
      if (/^c\d+$/.test(t))
        return (c) =>
          name(c.id) === t ||
          haystack(c)
            .split(/[\s,[\]()]+/)
            .includes(t);
      return (c) => haystack(c).includes(t);
    });
  return [...classes.values()].filter((c) => tests.every((t) => t(c)));
}

function rowsText(runs) {
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(', ');
}
const holds = (runs, row) => runs.some(([a, b]) => a <= row && row <= b);
const size = (runs) => runs.reduce((n, [a, b]) => n + b - a + 1, 0);

function legality(a) {
  const verdict = data.verdicts[a.verdict] || {};
  const rules = Object.entries(verdict);
  const total = data.rows.length;
  const refused = rules.reduce((n, [, runs]) => n + size(runs), 0);
  if (!refused) return h('span', { class: 'quiet' }, `legal under all ${total} rows`);
  return h(
    'details',
    {},
    h('summary', {}, `legal under ${total - refused} of ${total} rows`),
    h(
      'ul',
      {},
      rules.map(([rule, runs]) =>
        h(
          'li',
          {},
          h('b', {}, rule),
          ` (${data.reasons[rule] || 'a rule of the target'}): ${count(size(runs), 'row')}: `,
          h('span', { class: 'mono' }, rowsText(runs)),
        ),
      ),
    ),
    h('a', { href: '#overview/rows' }, 'what the rows are'),
  );
}

function whyNot(c, a, j) {
  if (c.chosen < 0) return '';
  if (j === c.chosen) return h('span', { class: 'mark' }, 'chosen');
  const verdict = data.verdicts[a.verdict] || {};
  const rule = data.row === null ? undefined : Object.keys(verdict).find((k) => holds(verdict[k], data.row));
  if (a.weight === null || a.weight === undefined) {
    return rule ? ['illegal under the chosen row: ', h('b', {}, rule), `, ${data.reasons[rule] || ''}`] : 'illegal under the chosen row';
  }
  if (a.kind === 'cycle') return 'it would need its own value: a cycle';
  if (a.kind === 'none') return 'an operand has no legal alternative under the chosen row';
  if (a.kind !== 'other') return h('span', { class: 'quiet' }, 'cost difference not worked out');
  const whole = data.choice.additive;
  if (a.added === 0) return 'the same additive cost';
  const sign = a.added > 0 ? '+' : '−';
  const told = `${sign}${number(Math.abs(a.added))} ${data.choice.unit} (${sign}${percent(Math.abs(a.added), whole)})`;
  return a.added > 0 ? `costs more: ${told}` : `additive cost ${told}; whole programs are compared by their exact cost`;
}

function alternativeRow(c, a, j) {
  return h(
    'tr',
    { class: j === c.chosen ? 'chosen' : false, id: `c${c.id}-${j}` },
    h('td', { class: 'mark' }, j === c.chosen ? '★' : '', j === c.chosen ? h('span', { class: 'visually-hidden' }, 'chosen') : ''),
    h('td', { class: 'mono' }, h('b', {}, a.op), ` ${a.attributes}`, a.by ? h('div', { class: 'quiet' }, `by ${a.by}`) : ''),
    h('td', { class: 'mono' }, a.space, a.place ? h('div', { class: 'quiet' }, `in ${a.place}`) : ''),
    h('td', { class: 'kids' }, a.kids.map(link)),
    h('td', { class: 'n' }, number(a.weight)),
    c.chosen < 0 ? null : h('td', {}, whyNot(c, a, j)),
    h('td', {}, legality(a)),
  );
}

function classView(id) {
  const c = classes.get(id);
  if (!c)
    return h(
      'section',
      { class: 'detail' },
      h('h2', {}, name(id)),
      h('p', {}, 'The page has no such class: it does not exist, or it is left out.'),
    );
  const rows = portion(
    c.alternatives.map((a, j) => [a, j]).sort((x, y) => (y[1] === c.chosen) - (x[1] === c.chosen) || x[1] - y[1]),
    100,
    ([a, j]) => alternativeRow(c, a, j),
    () => h('tbody', {}),
  );
  const users = portion(
    c.users,
    60,
    ([u, j]) =>
      h(
        'a',
        { href: `#classes/${u}`, title: alternativeText(classes.get(u).alternatives[j]) },
        `${name(u)} ${classes.get(u).alternatives[j].op}`,
        classes.get(u).chosen === j ? ' ★' : '',
      ),
    () => h('div', { class: 'users mono' }),
  );
  const part =
    c.chosen < 0
      ? 'no'
      : c.share === null
        ? 'yes'
        : `yes; it contributes ${number(c.share)} ${data.choice.unit} of ${number(data.choice.additive)} ` +
          `(${percent(c.share, data.choice.additive) || '0 %'})`;
  return h(
    'section',
    { class: 'detail', 'aria-label': name(id) },
    h('h2', { tabindex: '-1' }, `${name(id)}: ${[c.sort, c.dtype].filter(Boolean).join(' ')}`),
    facts([
      ['KIR origin', c.origin],
      ['part of the chosen program', part],
      ['alternatives', String(c.alternatives.length)],
    ]),
    h('p', {}, h('a', { href: `#diagram/${id}` }, 'Diagram of its neighbourhood')),
    h(
      'div',
      { class: 'scroll' },
      h(
        'table',
        { class: 'alternatives' },
        h('caption', { class: 'visually-hidden' }, `Alternatives of ${name(id)}`),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            [
              '',
              'alternative',
              'space and loops',
              'operands',
              `weight (${data.choice.unit})`,
              ...(c.chosen < 0 ? [] : ['why']),
              'legality',
            ].map((t) => h('th', { scope: 'col' }, t)),
          ),
        ),
        rows.box,
      ),
    ),
    rows.foot,
    h('h3', {}, `Used by ${count(c.users.length, 'alternative')}`),
    users.box,
    users.foot,
  );
}

const search = { query: 'is:chosen', order: 'graph' };

function classesPage(argument) {
  const id = argument === undefined || argument === '' ? data.graph.root : Number(argument);
  const found = h('div', {});
  const input = h('input', {
    type: 'search',
    id: 'search',
    'aria-label': 'Search classes',
    placeholder: 'operation, origin, c12, op:FLoad …',
    value: search.query,
    oninput: () => {
      search.query = input.value;
      results();
    },
  });
  const order = h(
    'select',
    {
      'aria-label': 'Order of the classes',
      onchange: () => {
        search.order = order.value;
        results();
      },
    },
    [
      ['graph', 'in order of the graph'],
      ['share', 'costliest first'],
      ['many', 'most alternatives first'],
    ].map(([v, t]) => h('option', { value: v, selected: search.order === v }, t)),
  );
  function results() {
    const hits = matching(search.query);
    if (search.order === 'share') hits.sort((a, b) => (b.share || 0) - (a.share || 0) || a.id - b.id);
    if (search.order === 'many') hits.sort((a, b) => b.alternatives.length - a.alternatives.length || a.id - b.id);
    const list = portion(
      hits,
      200,
      (c) =>
        h(
          'li',
          {},
          h(
            'a',
            { href: `#classes/${c.id}`, class: c.chosen >= 0 ? 'chosen' : false, 'aria-current': c.id === id ? 'true' : false },
            h('b', { class: 'mono' }, name(c.id)),
            ` ${brief(c)}`,
            h(
              'div',
              { class: 'quiet' },
              [
                c.alternatives.length > 1 ? `${c.alternatives.length} alternatives` : '',
                c.origin,
                c.share ? `${number(c.share)} ${data.choice.unit}` : '',
              ]
                .filter(Boolean)
                .join(' · '),
            ),
          ),
        ),
      () => h('ul', { class: 'results' }),
    );
    const said = `${count(hits.length, 'class', 'classes')} of ${classes.size.toLocaleString('en')}`;
    found.replaceChildren(h('p', { class: 'quiet', id: 'found' }, said), list.box, list.foot);
    say(said);
  }
  results();
  return h(
    'div',
    { class: 'two' },
    h(
      'section',
      { 'aria-label': 'Search' },
      h('div', { class: 'search' }, input, order),
      h(
        'p',
        { class: 'quiet' },
        'Words must all occur. Fields: op: by: origin: sort: dtype: label: loop: and is:chosen, is:alternatives, is:illegal.',
      ),
      found,
    ),
    classView(id),
  );
}
