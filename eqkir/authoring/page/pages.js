// Overview, rules, and the frame of the page.
const MOST_ROUNDS = 60;

function table(head, rows, caption, numeric = []) {
  return h(
    'div',
    { class: 'scroll' },
    h(
      'table',
      {},
      h('caption', { class: 'visually-hidden' }, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          head.map((t, i) => h('th', { scope: 'col', class: numeric.includes(i) ? 'n' : false }, t)),
        ),
      ),
      h(
        'tbody',
        {},
        rows.map((r) =>
          h(
            'tr',
            { class: r.chosen ? 'chosen' : false },
            r.cells.map((v, i) => h('td', { class: numeric.includes(i) ? 'n' : false }, v)),
          ),
        ),
      ),
    ),
  );
}

const STOPS = {
  saturated: 'no rule adds anything: the graph is complete for these rules',
  enodes: 'more e-nodes than the limit',
  matches: 'more matches in one iteration than the limit',
  iterations: 'as many iterations as the limit',
  seconds: 'the time limit; another run may end elsewhere',
  memory: 'the memory limit; another run may end elsewhere',
  error: 'a family of rules ended in an error and was left out',
  killed: 'the worker ended; the last good graph is used',
};

function overviewPage(argument) {
  const [g, c, t] = [data.graph, data.choice, data.saturation];
  const options = Object.entries(data.options).map(([k, v]) => [
    k,
    Array.isArray(v)
      ? v.join(', ')
      : v && typeof v === 'object'
        ? Object.entries(v)
            .map(([a, b]) => `${a}=${b}`)
            .join(', ')
        : String(v),
  ]);
  const shares = [...classes.values()].filter((x) => x.share).sort((a, b) => b.share - a.share || a.id - b.id);
  const top = portion(
    shares,
    12,
    (x) =>
      h(
        'tr',
        {},
        h('td', {}, link(x.id)),
        h('td', { class: 'mono' }, alternativeText(representative(x))),
        h('td', {}, x.origin),
        h('td', { class: 'n' }, number(x.share)),
        h('td', { class: 'n' }, percent(x.share, c.additive)),
      ),
    () => h('tbody', {}),
  );
  const rows = h(
    'details',
    { id: 'rows', open: argument === 'rows' },
    h('summary', {}, `The ${data.rows.length} binding rows`),
    h('p', {}, 'A row gives every physical parameter a value. Legality and weights are judged row by row; the chosen row is marked.'),
    table(
      ['row', 'template and values'],
      data.rows.map((r, i) => ({ chosen: i === data.row, cells: [String(i), h('span', { class: 'mono' }, r)] })),
      'Binding rows',
      [0],
    ),
  );
  if (argument === 'rows') requestAnimationFrame(() => rows.scrollIntoView());
  return h(
    'section',
    {},
    h('h2', {}, 'Saturation'),
    facts([
      ['stopped by', `${t.stop}: ${STOPS[t.stop] || ''}${t.message ? ` (${t.message})` : ''}`],
      ['iterations', String(t.iterations)],
      [
        'e-nodes',
        `${g.enodes.toLocaleString('en')} in ${count(g.classes, 'class', 'classes')} ` +
          `(${t.initial.toLocaleString('en')} before the first iteration, also those that the program does not reach)`,
      ],
      [
        'limits',
        Object.entries(t.limits)
          .map(([k, v]) => `${Number(v).toLocaleString('en')} ${k}`)
          .join(', '),
      ],
      ['seconds', t.seconds === undefined ? 'left out, so that the page is the same each time (--times)' : number(t.seconds)],
    ]),
    h('h2', {}, 'Choice'),
    facts([
      [
        'cost',
        `${number(c.initial)} (P0) → ${number(c.cost)} ${c.unit} (chosen${c.fallback ? ': P0, because no candidate verified' : ''})`,
      ],
      ['additive cost', c.selected ? `${number(c.additive)} ${c.unit}: the extractor's figure, the sum over classes below` : ''],
      ['row', c.row ? `${c.template}: ${c.row}` : 'none: P0 is chosen, so no alternative is marked'],
      ['digest', c.digest],
      [
        'search',
        `${c.rows} rows, ${c.feasible_rows} feasible; ${count(c.structures, 'structure')}, ${count(c.candidates, 'candidate')}; ` +
          `${c.tried} verified in order of cost`,
      ],
      ['runner-up', c.runner_up ? `${c.runner_up.why} (row ${c.runner_up.row})` : ''],
      [
        'made with',
        options
          .filter(([, v]) => v !== '')
          .map(([k, v]) => `${k} ${v}`)
          .join(' · '),
      ],
    ]),
    shares.length
      ? [
          h('h3', {}, 'Cost of the chosen program by class'),
          h(
            'div',
            { class: 'scroll' },
            h(
              'table',
              { id: 'shares' },
              h(
                'thead',
                {},
                h(
                  'tr',
                  {},
                  ['class', 'alternative', 'KIR origin', c.unit, 'share'].map((x, i) =>
                    h('th', { scope: 'col', class: i > 2 ? 'n' : false }, x),
                  ),
                ),
              ),
              top.box,
            ),
          ),
          top.foot,
        ]
      : null,
    h('h3', {}, 'Refused by legality'),
    h('p', { class: 'quiet' }, 'Pairs of an e-node and a row, by the first rule that refuses them.'),
    table(
      ['rule', 'refused where …', 'pairs'],
      Object.entries(c.illegal).map(([k, n]) => ({ cells: [h('b', {}, k), data.reasons[k] || '', n.toLocaleString('en')] })),
      'Refusals by rule',
      [2],
    ),
    c.rejected.length
      ? h(
          'details',
          {},
          h('summary', {}, `${count(c.rejected.length, 'candidate')} tried and not taken`),
          table(
            ['row', 'cost', 'why'],
            c.rejected.map((r) => ({ cells: [h('span', { class: 'mono' }, r.row), number(r.cost), r.why] })),
            'Rejected candidates',
            [1],
          ),
        )
      : null,
    rows,
  );
}

const milliseconds = (x) => `${(1000 * x).toFixed(3)} ms`;

function rulesPage(argument) {
  const wanted = argument ? decoded(argument) : '';
  const timed = data.saturation.seconds !== undefined;
  const fired = data.rules.filter((r) => r.matches);
  const still = data.rules.filter((r) => !r.matches);
  const last = Math.max(0, ...fired.flatMap((r) => r.rounds.map(([i]) => i))) + 1;
  const shown = Math.min(last, MOST_ROUNDS);
  const most = Math.max(1, ...fired.flatMap((r) => r.rounds.map(([, n]) => n)));
  const heat = (n) => (n ? `heat heat${Math.min(4, 1 + Math.floor((4 * Math.log(n)) / Math.log(most + 1)))}` : 'heat');
  const step = new Map(data.steps.steps.map((x, i) => [x.rule, i + 1]));
  const line = (r) => {
    const by = new Map(r.rounds.map(([i, n], k) => [i, [n, timed ? r.round_seconds[k] : undefined]]));
    return h(
      'tr',
      { class: r.name === wanted ? 'chosen' : false },
      h('td', {}, h('a', { href: `#rules/${encodeURIComponent(r.name)}` }, r.name)),
      h('td', {}, r.family),
      h('td', {}, step.has(r.name) ? h('a', { href: `#steps/${step.get(r.name)}` }, `step ${step.get(r.name)}`) : ''),
      h('td', { class: 'n' }, r.matches.toLocaleString('en')),
      timed ? h('td', { class: 'n' }, milliseconds(r.seconds)) : null,
      Array.from({ length: shown }, (_, i) =>
        h(
          'td',
          { class: heat(by.get(i)?.[0]), title: by.has(i) && timed ? milliseconds(by.get(i)[1]) : false },
          by.has(i) ? by.get(i)[0].toLocaleString('en') : '',
        ),
      ),
    );
  };
  const one = data.rules.find((r) => r.name === wanted);
  const round = ([i, n], k) => `${i + 1}: ${n}${timed ? ` in ${milliseconds(one.round_seconds[k])}` : ''}`;
  return h(
    'section',
    {},
    one
      ? h(
          'section',
          { id: 'rule', 'aria-label': `Rule ${one.name}` },
          h('h2', {}, one.name),
          facts([
            ['family', one.family],
            ['rewrite', h('code', {}, one.rewrite)],
            [
              'matches',
              one.matches
                ? `${one.matches.toLocaleString('en')} in ${count(one.rounds.length, 'iteration')}: ${one.rounds.map(round).join(', ')}`
                : 'none: `eqkir rules explain FILE --why RULE` says where its query ends',
            ],
          ]),
          h('pre', { class: 'text', tabindex: 0 }, one.text),
        )
      : wanted
        ? h('p', {}, `The page has no rule ${wanted}.`)
        : null,
    h('h2', {}, `${count(fired.length, 'rule')} matched, by iteration`),
    h(
      'p',
      { class: 'quiet' },
      `${shown < last ? `The first ${shown} of ${last} iterations; a rule's own lines have all. ` : ''}` +
        'Matches are counted each time a rule is run. ' +
        (timed ? 'Times: search and application.' : 'Seconds are left out, so that the page is the same each time; --times adds them.'),
    ),
    h(
      'div',
      { class: 'scroll' },
      h(
        'table',
        { id: 'fired' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            [
              'rule',
              'family',
              'in the chain',
              'matches',
              ...(timed ? ['time'] : []),
              ...Array.from({ length: shown }, (_, i) => String(i + 1)),
            ].map((x, i) => h('th', { scope: 'col', class: i > 2 ? 'n' : false }, x)),
          ),
        ),
        h('tbody', {}, fired.map(line)),
      ),
    ),
    h(
      'details',
      {},
      h('summary', {}, `${count(still.length, 'rule')} without a match`),
      h(
        'ul',
        {},
        still.map((r) =>
          h('li', {}, h('a', { href: `#rules/${encodeURIComponent(r.name)}` }, r.name), ` (${r.family}): `, h('code', {}, r.rewrite)),
        ),
      ),
    ),
  );
}

const PAGES = [
  ['overview', 'Overview', overviewPage],
  ['classes', 'Classes', classesPage],
  ['diagram', 'Diagram', diagramPage],
  ['rules', 'Rules', rulesPage],
  ['programs', 'P0 and chosen', programsPage],
  ['steps', 'Steps', stepsPage],
];
const main = document.getElementById('main');
const tabs = document.getElementById('tabs');
const where = () => {
  const [page, ...rest] = location.hash.slice(1).split('/');
  return [PAGES.some(([k]) => k === page) ? page : 'overview', rest.join('/') || undefined];
};

function show() {
  const [page, argument] = where();
  const searching = document.activeElement && document.activeElement.id === 'search';
  main.replaceChildren(PAGES.find(([k]) => k === page)[2](argument));
  main.setAttribute('role', 'tabpanel');
  main.setAttribute('aria-labelledby', `tab-${page}`);
  for (const b of tabs.children) {
    b.setAttribute('aria-selected', String(b.id === `tab-${page}`));
    b.tabIndex = b.id === `tab-${page}` ? 0 : -1;
  }
  document.documentElement.dataset.page = page;
  if (searching) document.getElementById('search')?.focus();
}

for (const [key, title] of PAGES)
  tabs.append(h('button', { type: 'button', role: 'tab', id: `tab-${key}`, 'aria-controls': 'main', onclick: () => go(key) }, title));
tabs.addEventListener('keydown', (e) => {
  const at = PAGES.findIndex(([k]) => `tab-${k}` === document.activeElement.id);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: PAGES.length - 1 }[e.key];
  if (at < 0 || to === undefined) return;
  e.preventDefault();
  const key = PAGES[(to + PAGES.length) % PAGES.length][0];
  go(key);
  document.getElementById(`tab-${key}`).focus();
});

const themes = ['system', 'light', 'dark'];
const theme = document.getElementById('theme');
theme.addEventListener('click', () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme || 'system') + 1) % 3];
  if (next === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.textContent = `Theme: ${next}`;
});

const keys = document.getElementById('keys');
const help = document.getElementById('help');
keys.append(
  facts([
    ['/', 'search classes'],
    ['1 – 6', 'the parts of the page'],
    ['[ and ]', 'the step before and after (Steps)'],
    ['?', 'these keys'],
    [
      'in the diagram',
      'arrows move, + − zoom, 0 fits; on a box: Enter opens the class, n draws its neighbourhood, ' +
        'space hides what is below, a shows all alternatives',
    ],
    ['anywhere', 'the browser’s back key returns to where you were; every place has an address'],
  ]),
);
const turn = () => {
  keys.hidden = !keys.hidden;
  help.setAttribute('aria-expanded', String(!keys.hidden));
};
help.addEventListener('click', turn);
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  if (e.key === '/') {
    e.preventDefault();
    if (where()[0] !== 'classes') {
      go('classes');
      show();
    }
    document.getElementById('search').select();
  } else if (e.key === '?') turn();
  else if (/^[1-6]$/.test(e.key)) go(PAGES[Number(e.key) - 1][0]);
  else if (e.key === '[') document.getElementById('previous')?.click();
  else if (e.key === ']') document.getElementById('next')?.click();
});

if (data.left_out.length) {
  const note = document.getElementById('left-out');
  note.hidden = false;
  note.append(
    h('b', {}, 'This page leaves something out.'),
    h(
      'ul',
      {},
      data.left_out.map((x) =>
        h(
          'li',
          {},
          `${x.what}: ${x.shown.toLocaleString('en')} of ${x.total.toLocaleString('en')}, ` +
            `${x.left.toLocaleString('en')} left out. To see all: `,
          h('code', {}, x.how),
        ),
      ),
    ),
  );
}
window.addEventListener('hashchange', show);
show();
