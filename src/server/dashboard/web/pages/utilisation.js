// How busy the environments were, how long jobs waited, and who held longest: does the team need more environments?

import { at, duration, empty, field, get, go, h, notice, now, pageHead, person, pipelineField, quiet, replace, svg, table, tabs } from '../parts/all.js';
import { BUSY, RANGES, bucketsOf, inAWord, inUse, percent, period, roughly } from '../lib/utilisation.js';
import { chart } from '../parts/chart.js';

const ROWS = 50;
const ORDERS = {
  busy: ['busiest first', (a, b) => b.busy - a.busy],
  idle: ['least busy first', (a, b) => a.busy - b.busy],
  waits: ['longest waits first', (a, b) => (b.waits.medianSeconds ?? -1) - (a.waits.medianSeconds ?? -1)],
  name: ['by name', (a, b) => a.envName.localeCompare(b.envName, undefined, { numeric: true })],
};

export async function show({ query, signal, main, title }) {
  title('Utilisation');
  const range = RANGES[query.range] ? query.range : 'week';
  const report = (await get('/utilisation', { query: { ...period(range, now()), pipelineId: query.pipelineId }, signal })).data;
  const here = (next) => `${location.pathname}?${new URLSearchParams({ range, pipelineId: query.pipelineId ?? '', ...next })}`;
  const pipeline = field({ ...await pipelineField(signal, 'All pipelines'), value: query.pipelineId });
  pipeline.classList.add('beside');
  pipeline.input.addEventListener('input', () => go(here({ pipelineId: pipeline.value() }), { replace: true }));
  replace(main, h('section', { class: 'page' },
    pageHead({ title: 'Utilisation', text: `How busy environments were, from ${date(report.from)} to now.`, actions: pipeline }),
    tabs({ label: 'Time range', items: Object.entries(RANGES).map(([name, { label }]) => ({ label, href: here({ range: name }), selected: name === range })) }),
    report.environments.length === 0 ? empty({ icon: 'chart', title: 'No environments yet', text: 'As soon as environments are claimed, this page shows how busy they are and how long jobs wait.' })
      : drawn(report)));
}

function drawn(report) {
  const times = bucketsOf(report);
  const [was, follows] = inAWord(report);
  return [
    h('div', { class: 'card' }, h('p', { class: 'sentence' }, was), follows ? h('p', { class: 'quiet' }, follows) : null),
    report.truncated ? notice('warm', 'There is more history than one report reads, so these figures are too low. Choose one pipeline or a shorter time.') : null,
    h('div', { class: 'two' },
      h('div', { class: 'card' }, busyChart(report, times)),
      h('div', { class: 'card' }, waitChart(report, times))),
    environments(report, times),
    holders(report),
  ];
}

function busyChart(report, times) {
  const count = report.environments.length;
  return chart({
    title: 'In use at once', unit: `environments of ${count}, on average`, labels: times.map(({ label }) => label), max: Math.ceil(count / 4) * 4,
    series: [{ name: 'in use', values: inUse(report, times).map((value) => Math.round(value * 10) / 10) }],
    format: (value) => String(Math.round(value * 10) / 10),
  });
}

function waitChart({ waitsPerBucket: waits }, times) {
  const longest = Math.max(0, ...waits.map(({ p90Seconds }) => p90Seconds ?? 0));
  const [unit, size] = longest >= 7200 ? ['hours', 3600] : longest >= 120 ? ['minutes', 60] : ['seconds', 1];
  const values = (name) => waits.map((bucket) => (bucket.count > 0 ? Math.round((bucket[name] / size) * 10) / 10 : null));
  return chart({
    title: 'Waiting for an environment', unit, labels: times.map(({ label }) => label), kind: 'bars',
    series: [{ name: 'half waited at most', values: values('medianSeconds') }, { name: '9 of 10 waited at most', values: values('p90Seconds') }],
    format: (value) => String(Math.round(value * 10) / 10),
  });
}

function environments(report, times) {
  const place = h('div', null);
  const order = field({ label: 'Order', name: 'order', value: 'busy', options: Object.entries(ORDERS).map(([key, [label]]) => [key, label]) });
  order.classList.add('beside');
  let most = ROWS;
  const draw = () => {
    const rows = [...report.environments].sort(ORDERS[order.value()][1]);
    replace(place, table({
      caption: 'Environments and how busy they were',
      href: ({ pipelineId, envName }) => at(pipelineId, envName),
      columns: [
        ['Environment', 'envName'], ['Pipeline', 'pipelineId'], ['Busy', ({ busy }) => share(busy, percent(busy), busy > BUSY)], ['When', (one) => strip(one, times), 'wide-only'],
        ['Sessions', 'sessions', 'number'], ['Locked for', ({ lockedSeconds }) => duration(lockedSeconds), 'number'],
        ['Waits', ({ waits }) => (waits.count === 0 ? quiet('none')
          : h('span', { title: `half at most ${duration(waits.medianSeconds)}, 9 of 10 at most ${duration(waits.p90Seconds)}, longest ${duration(waits.maxSeconds)}` }, `${waits.count}, about ${roughly(waits.medianSeconds)}`)), 'number'],
      ],
      rows: rows.slice(0, most),
    }), rows.length > most ? h('div', { class: 'list-foot' }, h('span', { class: 'quiet small' }, `${most} of ${rows.length}`),
      h('button', { type: 'button', class: 'button', on: { click: () => { most += ROWS; draw(); } } }, 'Show more')) : null);
  };
  order.input.addEventListener('input', draw);
  draw();
  return h('section', { class: 'card flush' }, h('header', null, h('h2', null, 'Environments'), order), place);
}

// A bar with its text.
function share(value, text, full) {
  return h('span', { class: 'share' }, h('span', { class: full ? 'full' : '', 'aria-hidden': 'true', style: { '--share': `${Math.round(value * 100)}%` } }), text);
}

// One cell per bucket, fuller if busier.
function strip({ busySecondsPerBucket: busy }, times) {
  const parts = times.map(({ seconds }, at) => Math.min(1, (busy[at] ?? 0) / seconds));
  const top = parts.indexOf(Math.max(...parts));
  return svg('svg', { class: 'strip', viewBox: `0 0 ${parts.length * 4} 20`, preserveAspectRatio: 'none', role: 'img', 'aria-label': parts[top] > 0 ? `busiest ${times[top].label}: ${percent(parts[top])}` : 'not used' },
    parts.map((part, at) => svg('rect', { x: at * 4, width: 3, y: 20 - 20 * part, height: 20 * part }, svg('title', null, `${times[at].label}: ${percent(part)}`))));
}

function holders({ holders: list }) {
  if (list.length === 0) return null;
  const longest = Math.max(...list.map(({ lockedSeconds }) => lockedSeconds), 1);
  return h('section', { class: 'card flush' }, h('header', null, h('h2', null, 'Who holds longest')), table({
    caption: 'Who held environments longest',
    columns: [
      ['Member', ({ user }) => person(user)], ['Held in all', ({ lockedSeconds }) => share(lockedSeconds / longest, duration(lockedSeconds))],
      ['Sessions', 'sessions', 'number'], ['Longest', ({ longestSeconds }) => duration(longestSeconds), 'number'],
    ],
    rows: list,
  }));
}

const date = (iso) => new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }).format(new Date(iso));
