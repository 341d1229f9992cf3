// Who held an environment when, as a picture and as a table.

import { h, svg } from '../lib/dom.js';
import { clock, duration, now, timeElement } from '../lib/time.js';
import { person } from './people.js';
import { state } from './state.js';
import { table } from './table.js';

const WIDTH = 1000;
const HEIGHT = 44;
const HOUR = 3600_000;
// Hours between marks on the axis, by the hours shown.
const MARKS = { 24: 3, 168: 24 };

// sessions: newest first, as in the history, including the current holder's; hours: 24 or 168.
export function timeline(sessions, hours, sessionAddress) {
  const to = now();
  const from = to - hours * HOUR;
  const held = sessions.filter(({ claimedAt, endedAt }) => claimedAt && (endedAt ? Date.parse(endedAt) : to) > from);
  const x = (time) => ((Math.max(from, time) - from) / (to - from)) * WIDTH;
  const bars = held.map((session) => {
    const start = x(Date.parse(session.claimedAt));
    const end = x(session.endedAt ? Date.parse(session.endedAt) : to);
    const text = `${session.user.name}, ${clock(session.claimedAt)} to ${session.endedAt ? clock(session.endedAt) : 'now'}${session.context ? `: ${session.context}` : ''}`;
    return svg('a', { href: sessionAddress(session), 'aria-label': text },
      svg('rect', { class: `held ${session.lockStatus}`, x: start, y: 4, width: Math.max(2, end - start), height: 28, rx: 2 }, svg('title', null, text)));
  });
  const total = held.reduce((sum, { claimedAt, endedAt }) => sum + (endedAt ? Date.parse(endedAt) : to) - Math.max(from, Date.parse(claimedAt)), 0);
  const busy = Math.round((100 * total) / (to - from));
  return h('figure', { class: 'timeline' },
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'group', 'aria-label': `Held ${busy} % of the time` }, svg('line', { x1: 0, x2: WIDTH, y1: 18, y2: 18, class: 'axis' }), bars),
    h('div', { class: 'timeline-axis', 'aria-hidden': 'true' }, marks(from, to, hours)),
    h('figcaption', { class: 'quiet small' }, held.length === 0 ? 'Nobody held it in this time.' : `Held ${busy} % of the time, by ${held.length} ${held.length === 1 ? 'session' : 'sessions'}. ${waits(held)}`),
    held.length > 0 ? h('details', null, h('summary', null, 'As a table'), table({
      caption: 'Sessions', rows: held.slice(0, 100), href: sessionAddress,
      columns: [
        { label: 'Who', cell: ({ user }) => user.name },
        { label: 'Context', cell: ({ context }) => context ?? '' },
        { label: 'From', cell: ({ claimedAt }) => timeElement(claimedAt) },
        { label: 'Held for', cell: (one) => duration(heldSeconds(one)) },
        { label: 'Waited', cell: (one) => duration(waitedSeconds(one)) },
        { label: 'End', cell: ({ lockStatus, endedBy }) => h('span', { class: 'row' }, state(lockStatus), lockStatus === 'overridden' && endedBy ? ['by ', person(endedBy)] : null) },
      ],
    })) : null);
}

export const heldSeconds = ({ claimedAt, endedAt }) => ((endedAt ? Date.parse(endedAt) : now()) - Date.parse(claimedAt)) / 1000;
export const waitedSeconds = ({ createdAt, claimedAt }) => (Date.parse(claimedAt) - Date.parse(createdAt)) / 1000;

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted.length === 0 ? null : sorted[Math.floor(sorted.length / 2)];
}

function waits(held) {
  const waited = held.map(waitedSeconds).filter((seconds) => seconds >= 1);
  if (waited.length === 0) return 'Nobody had to wait.';
  return `${waited.length} waited: ${duration(median(waited))} in the middle, ${duration(Math.max(...waited))} at most.`;
}

function marks(from, to, hours) {
  const step = MARKS[hours] * HOUR;
  const first = new Date(from);
  first.setMinutes(0, 0, 0);
  if (hours > 24) first.setHours(0);
  const format = new Intl.DateTimeFormat(undefined, hours > 24 ? { weekday: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  const places = [];
  for (let time = first.getTime() + step; time < to - step / 4; time += step) {
    places.push(h('span', { style: { left: `${(((time - from) / (to - from)) * 100).toFixed(2)}%` } }, format.format(time)));
  }
  return places;
}
