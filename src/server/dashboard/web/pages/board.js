// The board: who has which environment, until when, and who is next.

import { get, path } from '../lib/api.js';
import { h, replace } from '../lib/dom.js';
import { watchEnvironments } from '../lib/environments.js';
import { live } from '../lib/live.js';
import { isMe, may, me } from '../lib/session.js';
import { go, href, setQuery } from '../lib/router.js';
import { recall, remember } from '../lib/storage.js';
import { eachSecond } from '../lib/time.js';
import { windowed } from '../lib/window.js';
import { boardRow, tickRow } from '../parts/board-row.js';
import { COUNTED, compare, haystack, ORDERS, rank } from '../parts/board-order.js';
import { addEnvironment, claim, claimAny, leaveQueue, mayRelease, release } from '../parts/claims.js';
import { button } from '../parts/button.js';
import { attempt } from '../parts/dialog.js';
import { icon } from '../parts/icon.js';
import { pageKeys } from '../parts/keys.js';
import { empty, notice } from '../parts/notice.js';
import { pageHead } from '../parts/table.js';

// Rows keep their order while the pointer is on one; after this time without a move it no longer counts.
const HOLD_MILLISECONDS = 8000;
// Heartbeats and the claims that wait on a connection cause no events, so visible rows are read again this often.
const REFRESH_SECONDS = 5;
// Browsers throttle pages that change the address at each key.
const ADDRESS_MILLISECONDS = 250;
// The same as in styles/board.css.
const ROW_PIXELS = 56;
const ROW_PIXELS_NARROW = 88;
const isNarrow = () => matchMedia('(max-width: 1090px)').matches;

export async function show({ params, query, signal, main, title }) {
  const { pipelineId } = params;
  const board = {
    pipelineId, signal, org: me().organization.id,
    state: query.state ?? 'all', text: query.q ?? '', order: recall('order') ?? 'turn',
    places: new Map(), ranks: new Map(), holdUntil: 0, orderIsOld: false, addressTimer: null,
  };
  const [{ data: pipeline }, store] = await Promise.all([
    get(path('pipelines', pipelineId), { signal }),
    watchEnvironments(pipelineId, { signal, changed: (names) => board.view && changed(board, names) }),
  ]);
  title(pipeline.name);
  remember('pipeline', pipelineId);
  Object.assign(board, { pipeline, store });
  board.parts = partsOf(board);
  for (const environment of board.store.known.values()) prepare(environment);
  rankAll(board);
  board.view = windowed({
    scroller: main,
    body: board.parts.body,
    rowHeight: () => (isNarrow() ? ROW_PIXELS_NARROW : ROW_PIXELS),
    keyOf: (environment) => environment.envName,
    make: () => boardRow(),
    fill: (row, environment, at) => row.fill(environment, { at, org: board.org, place: board.places.get(environment.envName) }),
  });
  replace(main, pageOf(board));
  drawChips(board);
  arrange(board, true);
  readPlaces(board).catch(() => {});
  listen(board);
  const stops = [pageKeys(keysOf(board)), ...follow(board)];
  return () => {
    clearTimeout(board.addressTimer);
    stops.forEach((stop) => stop());
    board.view.stop();
  };
}

function partsOf({ pipeline, text, order: chosen }) {
  const filter = h('input', { type: 'search', 'aria-label': 'Filter', placeholder: isNarrow() ? 'Filter' : 'Filter: name, holder, label, commit', value: text, autocomplete: 'off', spellcheck: 'false' });
  const order = h('select', { 'aria-label': 'Order' }, Object.entries(ORDERS).map(([key, label]) => h('option', { value: key }, label)));
  order.value = chosen;
  const body = h('div', { class: 'grid-body', role: 'rowgroup' });
  const heads = ['Environment', 'State', 'Held for', 'Time left', 'Queue'].map((label) => h('div', { role: 'columnheader' }, label));
  const grid = h('div', { class: 'grid', role: 'table', 'aria-label': `Environments of ${pipeline.name}` },
    h('div', { role: 'rowgroup' }, h('div', { class: 'grid-head', role: 'row', 'aria-rowindex': 1 }, heads, h('div', { role: 'columnheader' }, h('span', { class: 'visually-hidden' }, 'Actions')))),
    body);
  return {
    filter, order, body, grid,
    tools: h('div', { class: 'board-tools' }, h('div', { class: 'filter' }, icon('search'), filter, h('kbd', { 'aria-hidden': 'true' }, '/')), order),
    chips: h('div', { class: 'chips', role: 'group', 'aria-label': 'State' }),
    notices: h('div', { class: 'stack', hidden: true }),
    note: h('div', { class: 'board-note', role: 'status', hidden: true }),
  };
}

function pageOf(board) {
  const { pipeline, pipelineId, parts } = board;
  parts.welcome = firstEnvironment(pipeline, board.org);
  return h('section', { class: 'board' },
    pageHead({ title: pipeline.name, actions: [
      may('claim') ? button({ label: 'Claim any…', icon: 'lock', onClick: () => claimAny(pipelineId, labelsOf(board.store.known)) }) : null,
      may('manage-environments') ? button({ label: 'Add environment…', kind: 'quiet', icon: 'plus', onClick: () => addEnvironment(pipelineId) }) : null,
    ] }),
    parts.notices, parts.tools, parts.chips, parts.grid, parts.note, parts.welcome);
}

// Sorts immediately if `now`, at the user's request; otherwise waits while the pointer is on a row.
function arrange(board, now) {
  const { parts, view } = board;
  const { known } = board.store;
  const terms = board.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...known.values()].filter((environment) => (board.state === 'all' || COUNTED[board.state]?.(environment))
    && terms.every((term) => environment.haystack.includes(term)));
  board.orderIsOld = !now && Date.now() < board.holdUntil;
  if (board.orderIsOld) {
    const places = new Map(view.items().map(({ envName }, at) => [envName, at]));
    found.sort((a, b) => (places.get(a.envName) ?? Infinity) - (places.get(b.envName) ?? Infinity) || compare('name', a, b));
  } else {
    found.sort((a, b) => compare(board.order, a, b));
  }
  view.set(found);
  parts.grid.setAttribute('aria-rowcount', String(found.length + 1));
  parts.grid.hidden = parts.tools.hidden = parts.chips.hidden = known.size === 0;
  parts.note.hidden = found.length > 0 || known.size === 0;
  parts.note.textContent = 'No environment fits this filter.';
  parts.welcome.hidden = known.size > 0;
}

function drawChips(board) {
  const { chips } = board.parts;
  const { known } = board.store;
  const counts = Object.fromEntries(Object.keys(COUNTED).map((key) => [key, 0]));
  for (const environment of known.values()) for (const key in COUNTED) if (COUNTED[key](environment)) counts[key] += 1;
  const shown = [['all', 'All', known.size], ['mine', 'Mine', counts.mine], ['free', 'Free', counts.free], ['locked', 'Locked', counts.locked],
    ['waiting', 'With a queue', counts.waiting], ['resetting', 'Resetting', counts.resetting], ['disabled', 'Disabled', counts.disabled]];
  const wanted = shown.filter(([key, , count]) => count > 0 || key === board.state || ['all', 'free', 'locked'].includes(key));
  const signature = JSON.stringify([board.state, wanted]);
  if (chips.dataset.signature === signature) return;
  const focused = chips.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  chips.dataset.signature = signature;
  replace(chips, wanted.map(([key, label, count]) => h('button', {
    type: 'button', class: 'chip', 'aria-pressed': String(board.state === key), data: { key }, on: { click: () => choose(board, { state: key }) },
  }, `${label} `, h('b', null, count))));
  if (focused) chips.querySelector(`[data-key="${focused}"]`)?.focus();
}

function choose(board, change) {
  Object.assign(board, change);
  clearTimeout(board.addressTimer);
  board.addressTimer = setTimeout(() => setQuery({ q: board.text, state: board.state === 'all' ? '' : board.state }), ADDRESS_MILLISECONDS);
  drawChips(board);
  arrange(board, true);
}

function changed(board, names) {
  const { known } = board.store;
  for (const name of names ?? known.keys()) {
    const environment = known.get(name);
    if (!environment) continue;
    prepare(environment);
    environment.rank = board.ranks.get(name);
  }
  if (names === null || board.ranks.size !== known.size || names.some((name) => !board.ranks.has(name))) rankAll(board);
  drawChips(board);
  arrange(board, false);
}

function rankAll({ store, ranks }) {
  rank([...store.known.values()]);
  ranks.clear();
  for (const { envName, rank: place } of store.known.values()) ranks.set(envName, place);
}

async function readPipeline(board) {
  board.pipeline = (await get(path('pipelines', board.pipelineId), { signal: board.signal })).data;
  await readPlaces(board);
}

// The user's own places in queues.
async function readPlaces(board) {
  const { pipeline, pipelineId, parts } = board;
  const { data } = await get('/sessions', { query: { mine: true, lockStatus: 'queued', pipelineId, limit: 100 }, signal: board.signal });
  board.places = new Map(data.filter(({ envName }) => envName).map((session) => [session.envName, session]));
  const any = data.filter(({ envName }) => !envName);
  parts.notices.hidden = any.length === 0 && pipeline.status !== 'stopped';
  replace(parts.notices,
    pipeline.status === 'stopped' ? notice('warm', h('span', null, `${pipeline.stoppedBy?.name ?? 'Somebody'} stopped this pipeline`, pipeline.stopReason ? `: ${pipeline.stopReason}` : '', '. Claims work; new deployments wait until it is resumed.')) : null,
    any.map(({ sessionId, queuePosition }) => notice('accent', h('div', { class: 'row spread' }, `You wait for any environment of ${pipeline.name}: number ${queuePosition} in the queue.`,
      button({ label: 'Leave the queue', onClick: () => leaveQueue({ pipelineId, sessionId }) })))));
  board.view.later();
}

function listen(board) {
  const { filter, order, body } = board.parts;
  filter.addEventListener('input', () => choose(board, { text: filter.value }));
  filter.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' && event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    event.preventDefault();
    if (event.key !== 'Escape') return focusRow(board, 0);
    filter.value = '';
    filter.blur();
    return choose(board, { text: '' });
  });
  order.addEventListener('change', () => {
    remember('order', order.value);
    choose(board, { order: order.value });
  });
  const hold = () => { board.holdUntil = Date.now() + HOLD_MILLISECONDS; };
  body.addEventListener('pointermove', hold);
  body.addEventListener('focusin', hold);
  body.addEventListener('pointerleave', () => {
    board.holdUntil = 0;
    if (board.orderIsOld) arrange(board, false);
  });
}

function focusRow({ view }, at) {
  const items = view.items();
  const place = Math.max(0, Math.min(items.length - 1, at));
  if (!items[place]) return;
  view.reveal(place);
  view.row(items[place].envName)?.querySelector('.name').focus({ preventScroll: true });
}

function keysOf(board) {
  const selectedAt = () => {
    const name = document.activeElement?.closest?.('.grid-row')?.dataset.name;
    return board.view.items().findIndex(({ envName }) => envName === name);
  };
  const whenSelected = (fn) => () => {
    const environment = board.view.items()[selectedAt()];
    if (environment) attempt(() => fn(environment));
  };
  return [
    { key: '/', text: 'filter', run: () => board.parts.filter.select() },
    { key: 'j', text: 'next row', run: () => focusRow(board, selectedAt() + 1) },
    { key: 'k', text: 'previous row', run: () => focusRow(board, selectedAt() - 1) },
    { key: 'Enter', text: 'open the row', run: whenSelected(({ envName }) => go(href(board.org, board.pipelineId, envName))) },
    { key: 'c', text: 'claim the row', run: whenSelected((one) => may('claim') && one.lockStatus === 'unlocked' && claim(one)) },
    { key: 'r', text: 'release the row', run: whenSelected((one) => mayRelease(one.lock) && release(one, { ask: true })) },
  ];
}

function follow(board) {
  const { view, store, pipelineId } = board;
  let seconds = 0;
  return [
    eachSecond(() => {
      for (const key of view.keys()) tickRow(view.row(key));
      if (board.orderIsOld && Date.now() >= board.holdUntil) arrange(board, false);
      seconds += 1;
      if (seconds % REFRESH_SECONDS === 0 && live.state().status === 'live') store.refresh(view.keys().filter((name) => store.known.get(name)?.lock));
    }),
    live.follow({ types: ['session.*'], pipelineId }, (event) => {
      if (event.type === 'reset' || isMe(event.actor) || board.places.size > 0) readPlaces(board).catch(() => {});
    }),
    live.follow({ types: ['pipeline.*'], pipelineId }, () => readPipeline(board).catch(() => {})),
  ];
}

function prepare(environment) {
  environment.isMine = Boolean(environment.lock) && isMe(environment.lock.user);
  environment.haystack = haystack(environment);
}

function labelsOf(known) {
  const labels = [...known.values()].flatMap(({ labels: some }) => Object.entries(some ?? {}).map(([key, value]) => `${key}:${value}`));
  return [...new Set(labels)].sort();
}

function firstEnvironment(pipeline, org) {
  const address = `${location.origin}/api/v1/organizations/${org}/pipelines/${pipeline.id}/ephemeral-environments/review-1`;
  return empty({
    title: 'No environments yet',
    text: 'An environment is what a job claims, deploys to and releases. Make the first one here, or with this command:',
    command: `curl -X PUT ${address} -H "Authorization: Bearer $LOCKKEEPER_TOKEN" -H 'Content-Type: application/json' -d '{}'`,
    action: may('manage-environments') ? button({ label: 'Add environment…', kind: 'primary', icon: 'plus', onClick: () => addEnvironment(pipeline.id) }) : null,
    icon: 'board',
  });
}
