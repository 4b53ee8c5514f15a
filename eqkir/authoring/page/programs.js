// Listings side by side, and the chain of rules step by step.
const CONTEXT = 3;

function diffRows(pair, all) {
  const [before, after] = [data.listings[pair.before], data.listings[pair.after]];
  const rows = [];
  const cell = (lines, i, kind) =>
    i < 0 ? [h('td', { class: 'at' }), h('td', {})] : [h('td', { class: 'at' }, String(i + 1)), h('td', { class: kind }, lines[i])];
  pair.runs.forEach(([tag, a0, a1, b0, b1], r) => {
    const n = Math.max(a1 - a0, b1 - b0);
    for (let i = 0; i < n; i += 1) {
      const fromStart = r > 0 && i < CONTEXT;
      const fromEnd = r < pair.runs.length - 1 && i >= n - CONTEXT;
      if (tag === '=' && !all && !fromStart && !fromEnd) {
        const skipped = n - (r > 0 ? CONTEXT : 0) - (r < pair.runs.length - 1 ? CONTEXT : 0);
        rows.push(h('tr', {}, h('td', { class: 'skip-row', colspan: 4 }, count(skipped, 'equal line'))));
        i += skipped - 1;
        continue;
      }
      const [x, y] = [a0 + i < a1 ? a0 + i : -1, b0 + i < b1 ? b0 + i : -1];
      rows.push(h('tr', {}, cell(before, x, tag === '=' ? false : 'gone'), cell(after, y, tag === '=' ? false : 'new')));
    }
  });
  return rows;
}

let wholeListings = false;

function sideBySide(number_, left, right) {
  const pair = data.pairs[number_];
  const body = h('tbody', {});
  const same = pair.runs.every(([tag]) => tag === '=');
  const whole = h('input', {
    type: 'checkbox',
    checked: wholeListings,
    onchange: () => {
      wholeListings = whole.checked;
      fill();
    },
  });
  const fill = () => body.replaceChildren(...diffRows(pair, wholeListings));
  fill();
  return h(
    'div',
    {},
    h('p', {}, h('label', {}, whole, ' whole listings'), same ? ' (both are equal)' : ''),
    h(
      'div',
      { class: 'scroll' },
      h(
        'table',
        { class: 'diff' },
        h('colgroup', {}, h('col', { class: 'at' }), h('col', {}), h('col', { class: 'at' }), h('col', {})),
        h('thead', {}, h('tr', {}, h('th', { colspan: 2, scope: 'colgroup' }, left), h('th', { colspan: 2, scope: 'colgroup' }, right))),
        body,
      ),
    ),
  );
}

function programsPage() {
  const c = data.choice;
  return h(
    'section',
    {},
    h(
      'p',
      {},
      `P0, the conservative program, beside the chosen one. Cost ${number(c.initial)} → ${number(c.cost)} ${c.unit}. ` +
        (c.row ? `Row: ${c.row}.` : 'P0 itself is chosen.'),
    ),
    sideBySide(data.programs, 'P0', 'chosen program'),
    h('details', {}, h('summary', {}, 'The kernel (KIR)'), h('pre', { class: 'text', tabindex: 0 }, data.listings[data.kir].join('\n'))),
  );
}

function stepsPage(argument) {
  const { steps, note, idle } = data.steps;
  if (!steps.length) return h('section', {}, h('p', {}, note), h('p', {}, 'No rule is needed for the choice, or the chain was not made.'));
  const at = Math.min(steps.length, Math.max(1, Number(argument) || 1));
  const x = steps[at - 1];
  const move = (label, to, key) =>
    h('button', { type: 'button', id: key, disabled: to < 1 || to > steps.length, onclick: () => go(`steps/${to}`) }, label);
  return h(
    'div',
    { class: 'two' },
    h(
      'nav',
      { 'aria-label': 'Steps' },
      h(
        'ol',
        { class: 'steps' },
        steps.map((y, i) =>
          h(
            'li',
            {},
            h(
              'a',
              { href: `#steps/${i + 1}`, 'aria-current': i + 1 === at ? 'step' : false },
              h('b', {}, `${i + 1}. ${y.rule}`),
              h('div', { class: 'quiet' }, `${y.family}; cost ${number(y.cost[0])} → ${number(y.cost[1])}`),
            ),
          ),
        ),
      ),
      h('p', { class: 'quiet' }, note),
      idle.length
        ? h(
            'details',
            {},
            h('summary', {}, `${count(idle.length, 'rule')} matched, and the choice is the same without each`),
            h('p', { class: 'mono' }, idle.join(', ')),
          )
        : null,
    ),
    h(
      'section',
      { 'aria-label': `Step ${at}` },
      h(
        'div',
        { class: 'bar' },
        move('◀ previous', at - 1, 'previous'),
        h('b', { id: 'step' }, `step ${at} of ${steps.length}`),
        move('next ▶', at + 1, 'next'),
      ),
      h('h2', {}, h('a', { href: `#rules/${encodeURIComponent(x.rule)}` }, x.rule), ` (${x.family})`),
      h('p', {}, h('code', {}, x.rewrite)),
      h(
        'p',
        {},
        `${count(x.matches, 'match', 'matches')}; cost ${number(x.cost[0])} → ${number(x.cost[1])} ${data.choice.unit}. `,
        x.changed ? '' : 'No change yet: a rule that follows needs it.',
      ),
      sideBySide(x.pair, 'before', 'after'),
    ),
  );
}
