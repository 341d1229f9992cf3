// Interprets a utilisation report: its period, its buckets, and a conclusion.

import { duration } from './time.js';

const HOUR = 3600;
const DAY = 24 * HOUR;
// From this share on, an environment counts as always taken: newcomers wait.
export const BUSY = 0.8;
// If at most this share is in use at the busiest time and nobody waits, there are more environments than needed.
const SPARE = 0.5;
export const RANGES = { day: { label: 'Day', days: 1 }, week: { label: 'Week', days: 7 }, month: { label: 'Month', days: 30 } };

// The period up to `now`. Buckets begin on the hour, or at local midnight.
export function period(range, now) {
  const from = new Date(now);
  if (range === 'day') {
    from.setTime((Math.floor(now / 1000 / HOUR) - 23) * HOUR * 1000);
  } else {
    from.setHours(0, 0, 0, 0);
    from.setDate(from.getDate() - RANGES[range].days + 1);
  }
  return { from: from.toISOString(), to: new Date(now).toISOString() };
}

// The label and length of each bucket; the last one has not ended.
export function bucketsOf({ from, to, bucketSeconds, waitsPerBucket }) {
  const form = new Intl.DateTimeFormat(undefined, bucketSeconds < 6 * HOUR ? { hour: '2-digit', minute: '2-digit' }
    : bucketSeconds < DAY ? { weekday: 'short', hour: '2-digit' } : { day: 'numeric', month: 'short' });
  return waitsPerBucket.map((_, place) => {
    const start = Date.parse(from) / 1000 + place * bucketSeconds;
    return { label: form.format(start * 1000), seconds: Math.max(1, Math.min(bucketSeconds, Date.parse(to) / 1000 - start)) };
  });
}

// How many environments were in use, on average over each bucket.
export function inUse({ environments }, buckets) {
  return buckets.map(({ seconds }, place) => environments.reduce((sum, { busySecondsPerBucket: busy }) => sum + (busy[place] ?? 0), 0) / seconds);
}

// [observation, conclusion]: does the team need more environments?
export function inAWord(report) {
  const { environments } = report;
  const count = environments.length;
  if (environments.every(({ sessions }) => sessions === 0)) return ['Nobody has used an environment in this time.', ''];
  const busy = environments.filter((one) => one.busy > BUSY).length;
  const average = environments.reduce((sum, one) => sum + one.busy, 0) / count;
  const peak = Math.max(0, ...inUse(report, bucketsOf(report)));
  const waits = middle(report.waitsPerBucket);
  const use = busy > 0 ? `${busy} of ${count} environments ${busy === 1 ? 'was' : 'were'} busy more than ${BUSY * 100} % of the time`
    : `${count === 1 ? 'The environment was' : `The ${count} environments were`} busy ${percent(average)} of the time`;
  const wait = waits ? `jobs waited about ${roughly(waits.median)} in the middle (${waits.count === 1 ? 'one wait' : `${waits.count} waits`})` : 'nobody had to wait';
  return [`${use}; ${wait}.`, advice({ waits, busy, count, peak })];
}

function advice({ waits, busy, count, peak }) {
  if (waits && peak / count > BUSY) return 'At the busiest time nearly all were taken: more environments would shorten the queue.';
  if (waits && busy > 0) return 'Some are taken all the time while others are free: claim any that fits instead of one by name, or add more of the busy kind.';
  if (waits) return 'There were waits although enough were free at most times: jobs may ask for one by name that any could serve.';
  if (peak / count < SPARE && count > 1) return `At the busiest time ${peak < 1 ? 'less than one' : `about ${Math.round(peak)}`} of ${count} was in use: fewer would do.`;
  return 'There are enough for now.';
}

// The median of the buckets' medians, weighted by their waits; null if nobody waited.
export function middle(buckets) {
  const sorted = buckets.filter(({ count }) => count > 0).sort((a, b) => a.medianSeconds - b.medianSeconds);
  const count = sorted.reduce((sum, bucket) => sum + bucket.count, 0);
  let seen = 0;
  const found = sorted.find((bucket) => (seen += bucket.count) * 2 >= count);
  return found ? { median: found.medianSeconds, count } : null;
}

// Rounded to the minute above 90 s.
export const roughly = (seconds) => duration(seconds < 90 ? seconds : Math.round(seconds / 60) * 60);
export const percent = (share) => (share > 0 && share < 0.01 ? 'less than 1 %' : `${Math.round(share * 100)} %`);
