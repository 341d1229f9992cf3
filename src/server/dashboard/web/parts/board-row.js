// One row of the board. Its elements are created once; later only changes are written.

import { h, setClass, setText } from '../lib/dom.js';
import { may } from '../lib/session.js';
import { go, href } from '../lib/router.js';
import { clock, duration, exactly, secondsSince, secondsUntil } from '../lib/time.js';
import { claim, extend, forceClaim, joinQueue, leaveQueue, mayForce, mayRelease, release } from './claims.js';
import { attempt } from './dialog.js';
import { icon } from './icon.js';
import { openMenu } from './menu.js';
import { setAvatar } from './people.js';
import { look, setState, state } from './state.js';

// Less time left than this is highlighted.
const SOON_SECONDS = 120;
// TTLs of jobs with heartbeats are short; on a longer scale the bar would always look empty.
const BAR_MOST_SECONDS = 3600;
const LABELS_SHOWN = 3;

// One menu for all rows, filled when it opens.
let list = null;

export function boardRow() {
  const cell = (name, ...children) => h('div', { role: 'cell', class: name }, children);
  const line = (...children) => h('div', { class: 'line' }, children);
  const part = {
    name: h('a', { class: 'name' }),
    labels: h('div', { class: 'labels' }),
    state: state('unlocked'),
    avatar: h('span', { class: 'avatar', 'aria-hidden': 'true' }),
    who: h('span', { class: 'who' }),
    context: h('span', { class: 'text quiet' }),
    commit: h('code', null),
    progress: state('running'),
    since: h('time', null),
    sinceClock: h('span', { class: 'quiet small' }),
    left: h('span', null),
    bar: h('div', { class: 'left-bar', 'aria-hidden': 'true' }, h('i', null)),
    queue: h('span', null),
    place: h('span', { class: 'you small' }),
    act: h('button', { type: 'button', class: 'button small' }),
    more: h('button', { type: 'button', class: 'button square small quiet', 'aria-haspopup': 'menu' }, icon('more')),
  };
  part.second = line(part.commit, part.progress);
  part.third = line(part.place);
  const row = h('div', { class: 'grid-row', role: 'row' },
    cell('c-name', part.name, part.labels),
    cell('c-what', line(part.state, part.avatar, part.who, part.context), part.second),
    cell('c-since', line(part.since), line(part.sinceClock)),
    cell('c-left', line(part.left), part.bar),
    cell('c-queue', line(part.queue), part.third),
    cell('c-acts acts', part.act, part.more));
  row.parts = part;
  row.fill = (environment, context) => fill(row, environment, context);
  row.addEventListener('animationend', () => row.classList.remove('changed'));
  part.act.addEventListener('click', () => attempt(() => primary(row.environment, row.place).run()));
  part.more.addEventListener('click', () => {
    list ??= document.body.appendChild(h('div', { class: 'menu', popover: 'auto', role: 'menu', 'aria-label': 'Actions' }));
    openMenu(list, part.more, others(row.environment, row.org));
  });
  return row;
}

function fill(row, environment, { at, org, place }) {
  const part = row.parts;
  const { envName, pipelineId, lockStatus, lock, labels, queueLength, isMine, disabledReason } = environment;
  const isOther = row.environment !== environment;
  const isSame = row.environment?.envName === envName && !row.isNew;
  row.setAttribute('aria-rowindex', String(at + 2));
  if (!isOther && row.place === place) return;
  const signature = JSON.stringify([lockStatus, lock?.sessionId, queueLength, environment.currentDeployment?.status, environment.currentDeployment?.stagesDone, lock?.commitId]);
  const flash = isSame && row.signature !== signature;
  Object.assign(row, { environment, org, place, signature });
  row.dataset.name = envName;
  setClass(row, `grid-row${isMine ? ' own' : ''}${flash ? ' changed' : row.classList.contains('changed') && isSame ? ' changed' : ''}`);
  setText(part.name, envName);
  part.name.setAttribute('href', href(org, pipelineId, envName));
  const shown = Object.entries(labels ?? {}).slice(0, LABELS_SHOWN).map(([key, value]) => `${key}:${value}`);
  if (part.labels.dataset.text !== shown.join()) {
    part.labels.dataset.text = shown.join();
    part.labels.hidden = shown.length === 0;
    part.labels.replaceChildren(...shown.map((text) => h('span', { class: 'tag' }, text)));
  }
  setState(part.state, isMine ? 'mine' : lockStatus);
  part.avatar.hidden = part.who.hidden = !lock || isMine;
  if (lock && !isMine) {
    setAvatar(part.avatar, lock.user.name);
    setText(part.who, lock.user.name);
  }
  setText(part.context, lock?.context ?? disabledReason ?? '');
  part.context.title = lock?.context ?? disabledReason ?? '';
  fillDeployment(part, environment);
  part.since.hidden = part.sinceClock.hidden = !lock;
  if (lock) {
    part.since.title = exactly(lock.claimedAt);
    part.since.dateTime = lock.claimedAt;
    setText(part.sinceClock, `since ${clock(lock.claimedAt)}`);
  }
  setText(part.queue, queueLength === 0 ? '' : `${queueLength} waiting`);
  setText(part.place, place ? (place.queuePosition === 1 ? 'you are next' : `you are ${ordinal(place.queuePosition)}`) : '');
  part.third.hidden = !place;
  fillActions(part, environment, place);
  tickRow(row);
}

function fillDeployment(part, { lock, lockStatus, currentDeployment, lastDeployment }) {
  const commit = currentDeployment?.commitId ?? lock?.commitId ?? (lockStatus === 'resetting' ? lastDeployment?.commitId : null);
  part.commit.hidden = !commit;
  setText(part.commit, commit ?? '');
  part.commit.title = commit ?? '';
  const failed = lock && !currentDeployment && lastDeployment && lastDeployment.commitId === commit && lastDeployment.finishedAt >= lock.claimedAt;
  const shown = currentDeployment ?? (failed ? lastDeployment : null);
  part.progress.hidden = !shown;
  part.second.hidden = !commit && !shown;
  if (!shown) return;
  const { status, stage, stagesDone, stagesTotal } = shown;
  const count = stagesTotal > 0 ? ` ${Math.min(stagesTotal, (stagesDone ?? 0) + 1)}/${stagesTotal}` : '';
  const words = status === 'running' ? `deploying${count}${stage ? ` ${stage}` : ''}` : status === 'awaiting_approval' ? 'needs approval' : look(status).word;
  setState(part.progress, status, words);
}

// Updates the times of visible rows each second.
export function tickRow(row) {
  const { parts: part, environment } = row;
  const lock = environment?.lock;
  part.bar.hidden = !lock?.expiresAt;
  if (!lock) return setText(part.left, '');
  setText(part.since, duration(secondsSince(lock.claimedAt)));
  if (!lock.expiresAt) {
    part.left.title = '';
    return setText(part.left, 'never expires');
  }
  const left = secondsUntil(lock.expiresAt);
  const whole = Math.min(BAR_MOST_SECONDS, (Date.parse(lock.expiresAt) - Date.parse(lock.claimedAt)) / 1000);
  part.left.title = exactly(lock.expiresAt);
  setText(part.left, left <= 0 ? 'expiring' : `${duration(left)} left`);
  setClass(part.bar, left < SOON_SECONDS ? 'left-bar soon' : 'left-bar');
  const scale = `scaleX(${Math.max(0, Math.min(1, left / Math.max(1, whole))).toFixed(3)})`;
  if (part.bar.firstChild.style.transform !== scale) part.bar.firstChild.style.transform = scale;
  return undefined;
}

// The most likely action.
function primary(environment, place) {
  const { lockStatus, lock, isMine } = environment;
  if (!may('claim')) return null;
  if (lockStatus === 'unlocked') return { label: 'Claim', run: () => claim(environment) };
  if (isMine && lock) return { label: 'Release', run: () => release(environment) };
  if (place) return { label: 'Leave', name: `Leave the queue of ${environment.envName}`, run: () => leaveQueue({ ...environment, sessionId: place.sessionId }) };
  if (lockStatus === 'locked' || lockStatus === 'resetting') return { label: 'Wait', name: `Wait for ${environment.envName}`, run: () => joinQueue(environment) };
  return null;
}

function fillActions(part, environment, place) {
  const action = primary(environment, place);
  part.act.hidden = !action;
  if (action) {
    setText(part.act, action.label);
    part.act.setAttribute('aria-label', action.name ?? `${action.label} ${environment.envName}`);
  }
  part.more.setAttribute('aria-label', `More for ${environment.envName}`);
}

function others(environment, org) {
  const { envName, pipelineId, lock, isMine } = environment;
  const address = href(org, pipelineId, envName);
  const acts = [
    { label: `Open ${envName}`, icon: 'right', onClick: () => go(address) },
    { label: 'Copy its link', icon: 'link', onClick: () => navigator.clipboard?.writeText(location.origin + address) },
  ];
  if (lock) acts.push({ label: 'Open the session', icon: 'list', onClick: () => go(`${address}/${lock.sessionId}`) });
  if (lock && isMine && lock.expiresAt) acts.push({ label: 'Extend', icon: 'clock', onClick: () => attempt(() => extend(environment)) });
  if (lock && !isMine && mayForce(environment)) acts.push(null, { label: 'Force-claim…', icon: 'swap', danger: true, onClick: () => attempt(() => forceClaim(environment)) });
  if (lock && !isMine && mayRelease(lock)) acts.push({ label: `Release ${envName}…`, icon: 'free', danger: true, onClick: () => attempt(() => release(environment)) });
  return acts;
}

function ordinal(number) {
  const last = number % 10;
  const teen = Math.floor((number % 100) / 10) === 1;
  return `${number}${teen ? 'th' : { 1: 'st', 2: 'nd', 3: 'rd' }[last] ?? 'th'}`;
}
