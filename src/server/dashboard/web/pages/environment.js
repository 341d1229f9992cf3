// One environment: holder, queue, deployment, history and configuration.

import { del, environmentPath, get, put } from '../lib/api.js';
import { h, linked, replace } from '../lib/dom.js';
import { isMe, may, me } from '../lib/session.js';
import { go, href, setQuery } from '../lib/router.js';
import { duration, eachSecond, now, secondsSince, secondsUntil, timeElement } from '../lib/time.js';
import { button } from '../parts/button.js';
import { claim, deploy, extend, forceClaim, joinQueue, leaveQueue, mayForce, mayRelease, release } from '../parts/claims.js';
import { deploymentPanel } from '../parts/deployment-panel.js';
import { attempt, confirm } from '../parts/dialog.js';
import { field, formDialog, labelsFrom } from '../parts/form.js';
import { pageKeys } from '../parts/keys.js';
import { refetch } from '../parts/list-page.js';
import { menu } from '../parts/menu.js';
import { announce, copyable, toast } from '../parts/notice.js';
import { avatar, person } from '../parts/people.js';
import { state } from '../parts/state.js';
import { facts } from '../parts/table.js';
import { heldSeconds, median, timeline } from '../parts/timeline.js';

// Heartbeats and claims that wait on a connection cause no events.
const REFRESH_SECONDS = 5;
const EVENTS_MILLISECONDS = 100;
const HISTORY_PAGES_MOST = 5;
const DAY_HOURS = 24;
const WEEK_HOURS = 168;
const SOON_SECONDS = 120;

export async function show({ params, query, signal, main, title }) {
  const { pipelineId, envName } = params;
  const org = me().organization.id;
  const part = (tag, name) => h(tag, { class: name });
  const page = {
    pipelineId, envName, org, signal,
    address: environmentPath(pipelineId, envName),
    sessionAddress: ({ sessionId }) => href(org, pipelineId, envName, sessionId),
    environment: null, history: [], hours: query.range === 'week' ? WEEK_HOURS : DAY_HOURS, panel: { id: null, controller: null },
    top: part('div', 'stack'), queue: part('section', 'card'), deployment: part('div', 'stack'), past: part('section', 'card'), setup: part('section', 'card'),
  };
  title(envName);
  await read(page);
  replace(main, h('article', { class: 'page environment' }, page.top, h('div', { class: 'columns' }, page.queue, page.deployment), page.past, page.setup));
  const stops = follow(page);
  return () => {
    page.panel.controller?.abort();
    stops.forEach((stop) => stop());
  };
}

function follow(page) {
  const { pipelineId, envName, org } = page;
  const again = () => read(page).catch((error) => error.status === 404 && !page.signal.aborted && go(href(org, pipelineId), { replace: true }));
  const pastAgain = () => readHistory(page).catch(() => replace(page.past, h('p', { class: 'quiet' }, 'The history cannot be read now.')));
  let seconds = 0;
  pastAgain();
  return [
    refetch({ pipelineId, envName }, again, EVENTS_MILLISECONDS),
    refetch({ pipelineId, envName, types: ['session.*'] }, pastAgain, 1000),
    eachSecond(() => {
      seconds += 1;
      if (seconds % REFRESH_SECONDS === 0 && (page.environment.lock || page.environment.waiting.length > 0)) again();
    }),
    pageKeys([
      { key: 'c', text: `claim ${envName}`, run: () => may('claim') && page.environment.lockStatus === 'unlocked' && attempt(() => claim(page.environment)) },
      { key: 'r', text: `release ${envName}`, run: () => mayRelease(page.environment.lock) && attempt(() => release(page.environment, { ask: true })) },
      { key: 'b', text: 'back to the board', run: () => go(href(org, pipelineId)) },
    ]),
  ];
}

async function read(page) {
  const { address, signal } = page;
  const [one, waiting] = await Promise.all([get(address, { signal }), get(`${address}/queue`, { query: { limit: 100 }, signal })]);
  const before = page.environment;
  const found = { ...one.data, etag: one.etag, waiting: waiting.data };
  if (JSON.stringify(before) === JSON.stringify(found)) return;
  page.environment = found;
  const { lock } = found;
  if (before && before.lock?.sessionId !== lock?.sessionId) announce(lock ? `${lock.user.name} has ${page.envName} now` : `${page.envName} is free now`);
  drawTop(page);
  drawQueue(page);
  drawDeployment(page);
  drawSetup(page);
}

async function readHistory(page) {
  const from = new Date(now() - page.hours * 3600_000).toISOString();
  const found = [];
  for (let number = 1; number <= HISTORY_PAGES_MOST; number += 1) {
    const { data, pagination } = await get(`${page.address}/history`, { query: { page: number, limit: 100, from }, signal: page.signal });
    found.push(...data);
    if (number >= pagination.totalPages) break;
  }
  page.history = found;
  drawPast(page);
  drawQueue(page);
}

const ownPlace = ({ environment }) => environment.waiting.find(({ user, sessionId }) => sessionId && isMe(user));

function drawTop(page) {
  const { envName, environment } = page;
  const { lock, lockStatus, configuration, disabledReason } = environment;
  const free = may('claim') ? 'Nobody holds it. It is yours with one click.' : 'Nobody holds it.';
  const words = { unlocked: free, resetting: 'It is being put in order after a release.', disabled: disabledReason ?? 'It is not handed out now.' };
  replace(page.top,
    h('header', { class: 'page-head' },
      h('div', { class: 'stack tight' }, h('h1', null, envName), h('div', { class: 'row' }, state(lock && isMe(lock.user) ? 'mine' : lockStatus),
        Object.entries(configuration.labels).map(([key, value]) => h('span', { class: 'tag' }, `${key}:${value}`)),
        configuration.description ? h('span', { class: 'quiet' }, configuration.description) : null)),
      h('div', { class: 'row' }, actionsOf(page))),
    h('section', { class: 'card', 'aria-label': 'Holder' }, lock ? holder(page) : h('p', { class: 'quiet' }, words[lockStatus])));
}

function holder({ environment: { lock }, sessionAddress }) {
  const isMine = isMe(lock.user);
  return h('div', { class: 'holder' },
    Object.assign(avatar(lock.user.name), { className: 'avatar large' }),
    h('div', { class: 'stack tight' },
      h('p', null, h('strong', null, isMine ? 'You' : lock.user.name), isMine ? ' have' : ' has', ' held it for ', timeElement(lock.claimedAt, 'since'), ' ', h('a', { class: 'small', href: sessionAddress(lock) }, 'session')),
      lock.context ? h('p', { class: 'context' }, linked(lock.context)) : null,
      h('p', { class: 'row quiet small' }, lock.commitId ? h('code', null, lock.commitId) : null, h('span', null, `fencing token ${lock.fencingToken}`))),
    h('div', { class: 'left' }, timeLeft(lock)));
}

function actionsOf(page) {
  const { envName, environment } = page;
  const { lock, lockStatus } = environment;
  const isMine = Boolean(lock) && isMe(lock.user);
  const isTaken = (lockStatus === 'locked' || lockStatus === 'resetting') && !isMine;
  return [
    lockStatus === 'unlocked' && may('claim') ? button({ label: `Claim ${envName}`, kind: 'primary', icon: 'lock', onClick: () => claim(environment) }) : null,
    isMine && lock.expiresAt && may('claim') ? button({ label: 'Extend', icon: 'clock', busyLabel: 'Extending…', onClick: async () => { await extend(environment); await read(page); } }) : null,
    isMine && may('deploy') ? button({ label: 'Deploy…', icon: 'rocket', onClick: () => deploy(environment) }) : null,
    mayRelease(lock) ? button({ label: `Release ${envName}`, kind: isMine ? 'primary' : '', icon: 'free', busyLabel: 'Releasing…', onClick: () => release(environment) }) : null,
    isTaken && may('claim') && !ownPlace(page) ? button({ label: 'Wait in the queue…', kind: 'primary', icon: 'queue', onClick: () => joinQueue(environment) }) : null,
    lock && !isMine && mayForce(environment) ? button({ label: `Force-claim ${envName}…`, kind: 'danger', icon: 'swap', onClick: () => forceClaim(environment) }) : null,
    lockStatus === 'disabled' && may('manage-environments') ? button({ label: `Enable ${envName}`, onClick: () => change(page, { disabled: false }) }) : null,
    may('manage-environments') ? manageMenu(page) : null,
  ];
}

// Estimated from the current hold and earlier ones.
function estimate({ environment: { lock }, history }, position) {
  const usual = median(history.filter(({ endedAt, claimedAt }) => endedAt && claimedAt).map(heldSeconds));
  if (usual === null || !lock) return null;
  const rest = Math.max(30, usual - secondsSince(lock.claimedAt));
  const present = lock.expiresAt ? Math.min(rest, Math.max(1, secondsUntil(lock.expiresAt))) : rest;
  return `about ${duration(Math.ceil((present + (position - 1) * usual) / 60) * 60)}`;
}

function drawQueue(page) {
  const { pipelineId, envName, environment: { waiting } } = page;
  const own = ownPlace(page);
  const about = own ? estimate(page, own.position) : null;
  const rows = waiting.map((waiter) => h('li', { class: isMe(waiter.user) ? 'own' : '' },
    h('span', { class: 'position' }, waiter.position),
    h('div', null, person(waiter.user, isMe(waiter.user) ? '(you)' : null), waiter.any ? h('span', { class: 'tag' }, 'any environment') : null,
      waiter.priority !== 0 ? h('span', { class: 'tag' }, `priority ${waiter.priority}`) : null,
      waiter.context ? h('p', { class: 'quiet small clip' }, linked(waiter.context)) : null),
    h('span', { class: 'quiet small' }, 'waits ', timeElement(waiter.createdAt, 'since'))));
  replace(page.queue, h('header', null, h('h2', null, 'Queue'), h('span', { class: 'count' }, waiting.length)),
    own ? h('p', { class: 'you' }, own.position === 1 ? 'You are next' : `You are number ${own.position}`, about ? `, ${about}.` : '.') : null,
    rows.length > 0 ? h('ol', { class: 'queue' }, rows) : h('p', { class: 'quiet' }, 'Nobody waits.'),
    own ? h('div', null, button({ label: 'Leave the queue', onClick: () => leaveQueue({ pipelineId, envName, sessionId: own.sessionId }) })) : null);
}

function drawDeployment(page) {
  const { currentDeployment, lastDeployment, lock } = page.environment;
  const id = currentDeployment?.deploymentId ?? lastDeployment?.deploymentId ?? null;
  if (id === page.panel.id && id !== null) return;
  page.panel.controller?.abort();
  page.panel = { id, controller: new AbortController() };
  replace(page.deployment, id ? deploymentPanel({ deploymentId: id, signal: page.panel.controller.signal, holds: Boolean(lock) })
    : h('section', { class: 'card' }, h('h2', null, 'Deployment'), h('p', { class: 'quiet' }, 'Nothing was deployed here yet. Name a commit when you claim it, or deploy one later.')));
}

function drawPast(page) {
  const { environment: { lock }, history, hours } = page;
  const choice = (label, value) => h('button', { type: 'button', class: 'chip', 'aria-pressed': String(hours === value), on: { click: () => {
    page.hours = value;
    setQuery({ range: value === WEEK_HOURS ? 'week' : '' });
    attempt(() => readHistory(page));
  } } }, label);
  const all = lock && !history.some(({ sessionId }) => sessionId === lock.sessionId)
    ? [{ ...lock, createdAt: lock.claimedAt, endedAt: null, lockStatus: 'active' }, ...history] : history;
  replace(page.past, h('header', null, h('h2', null, 'Who held it'), h('div', { class: 'chips', role: 'group', 'aria-label': 'Time' }, choice('Day', DAY_HOURS), choice('Week', WEEK_HOURS))),
    timeline(all, hours, page.sessionAddress));
}

function drawSetup({ setup, org, address, environment: { configuration: one } }) {
  const seconds = (value, none) => (value === null ? none : duration(value));
  replace(setup, h('header', null, h('h2', null, 'Configuration')), facts([
    ['A claim ends without activity after', seconds(one.defaultTtlSeconds, 'never, unless the claim says so')],
    ['At most', seconds(one.maxTtlSeconds)],
    ['Longest hold', seconds(one.maxHoldSeconds, 'as long as it is active')],
    ['Queue at most', one.maxQueueLength],
    ['Force-claim', `${one.forceClaimRole} or above`],
    ['Deploys on claim', one.deployOnClaim ? 'yes' : 'no'],
    ['After a release', one.onRelease ? h('span', null, 'deploys ', h('code', null, one.onRelease.commitId)) : 'free at once'],
    ['Variables', Object.keys(one.variables).length > 0 ? h('code', null, Object.entries(one.variables).map(([key, value]) => `${key}=${value}`).join(' ')) : null],
  ]), copyable(`${location.origin}/api/v1/organizations/${org}${address}`, { label: 'Copy API address' }));
}

async function change(page, values) {
  const { etag, configuration } = page.environment;
  await put(page.address, { ...configuration, ...values }, { headers: etag ? { 'If-Match': etag } : {} });
  await read(page);
}

function manageMenu(page) {
  const { envName, org, pipelineId, address } = page;
  const { disabled } = page.environment.configuration;
  const disable = { title: `Disable ${envName}?`, body: h('p', null, 'It is not handed out any more. Its holder may finish.'), action: `Disable ${envName}`, onConfirm: () => change(page, { disabled: true }) };
  return menu({ label: `More for ${envName}`, items: () => [
    { label: 'Edit…', icon: 'list', onClick: () => edit(page) },
    { label: disabled ? 'Enable' : 'Disable…', icon: 'ban', onClick: () => (disabled ? attempt(() => change(page, { disabled: false })) : confirm(disable)) },
    null,
    { label: 'Delete…', icon: 'cross', danger: true, onClick: () => confirm({
      title: `Delete ${envName}?`, body: h('p', null, 'Its configuration and its history are lost. A locked environment cannot be deleted.'), action: `Delete ${envName}`,
      onConfirm: async () => { await del(address); toast(`${envName} is deleted.`); go(href(org, pipelineId)); },
    }) },
  ] });
}

function edit(page) {
  const one = page.environment.configuration;
  return formDialog({
    title: `Edit ${page.envName}`,
    fields: [
      field({ label: 'Description', name: 'description', value: one.description }),
      field({ label: 'Labels', name: 'labels', value: Object.entries(one.labels).map((pair) => pair.join(':')).join(' '), hint: 'Such as size:large zone:eu' }),
      field({ label: 'A claim ends without activity after (seconds)', name: 'defaultTtlSeconds', type: 'number', value: one.defaultTtlSeconds, hint: 'Empty: never on its own' }),
      field({ label: 'Longest hold (seconds)', name: 'maxHoldSeconds', type: 'number', value: one.maxHoldSeconds, hint: 'Empty: no limit' }),
      field({ label: 'Least role for a force-claim', name: 'forceClaimRole', type: 'select', value: one.forceClaimRole, options: ['developer', 'maintainer', 'admin'] }),
      field({ label: 'Deploy the commit of a claim at once', name: 'deployOnClaim', type: 'checkbox', value: one.deployOnClaim }),
    ],
    submit: { label: 'Save', busyLabel: 'Saving…' },
    onSubmit: ({ labels, ...values }) => change(page, { description: '', defaultTtlSeconds: null, maxHoldSeconds: null, ...values, labels: labelsFrom(labels) }),
  });
}

function timeLeft({ expiresAt, claimedAt }) {
  if (!expiresAt) return [h('strong', null, 'Never expires'), h('p', { class: 'quiet small' }, 'until somebody releases it')];
  const left = secondsUntil(expiresAt);
  const whole = Math.max(1, Math.min(3600, (Date.parse(expiresAt) - Date.parse(claimedAt)) / 1000));
  const bar = h('div', { class: left < SOON_SECONDS ? 'left-bar soon' : 'left-bar', 'aria-hidden': 'true' }, h('i', { style: { transform: `scaleX(${Math.min(1, Math.max(0, left / whole))})` } }));
  return [h('strong', null, timeElement(expiresAt, 'left'), ' left'), bar];
}
