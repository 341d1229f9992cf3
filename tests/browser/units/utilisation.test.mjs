// The texts of the utilisation report, and the period that it requests.
import assert from 'node:assert/strict';
import { test } from 'node:test';

// The module for times has a timer for as long as its page is open; a test ends.
globalThis.setInterval = () => 0;
const { bucketsOf, inAWord, inUse, middle, period } = await import(`${process.env.WEB}/lib/utilisation.js`);

const HOUR = 3600;

// Environments by their busy seconds in each hour; waits by [count, medianSeconds] in each hour.
function report(busy, waits, { lastHour = HOUR } = {}) {
  const hours = waits.length;
  const from = Date.parse('2026-11-16T00:00:00Z');
  const seconds = (hours - 1) * HOUR + lastHour;
  return {
    from: new Date(from).toISOString(), to: new Date(from + seconds * 1000).toISOString(), bucketSeconds: HOUR,
    environments: busy.map((perBucket) => ({
      sessions: perBucket.some((one) => one > 0) ? 1 : 0, busySecondsPerBucket: perBucket, busy: perBucket.reduce((sum, one) => sum + one, 0) / seconds,
    })),
    waitsPerBucket: waits.map(([count, medianSeconds]) => ({ count, medianSeconds, p90Seconds: medianSeconds })),
  };
}

test('busy environments and waits are said, and that more would help', () => {
  const [was, follows] = inAWord(report([[HOUR, HOUR], [HOUR, HOUR], [HOUR, HOUR / 2]], [[3, 240], [1, 600]]));
  assert.equal(was, '2 of 3 environments were busy more than 80 % of the time; jobs waited about 4 min in the middle (4 waits).');
  assert.match(follows, /more environments would shorten the queue/);
});

test('idle environments that nobody waits for are too many', () => {
  const [was, follows] = inAWord(report([[HOUR / 2, 0], [0, 0], [0, 0], [0, 0]], [[0, null], [0, null]]));
  assert.equal(was, 'The 4 environments were busy 6 % of the time; nobody had to wait.');
  assert.match(follows, /less than one of 4 was in use: fewer would do/);
});

test('waits while others are free are no reason for more', () => {
  const [, follows] = inAWord(report([[HOUR, HOUR], [0, 0], [0, 0]], [[1, 60], [0, null]]));
  assert.match(follows, /claim any that fits/);
});

test('an unused time is called so', () => {
  assert.deepEqual(inAWord(report([[0], [0]], [[0, null]])), ['Nobody has used an environment in this time.', '']);
});

test('the last bucket counts as long as it has lasted', () => {
  const half = report([[HOUR, HOUR / 2]], [[0, null], [0, null]], { lastHour: HOUR / 2 });
  assert.deepEqual(inUse(half, bucketsOf(half)), [1, 1]);
});

test('the middle wait weighs each bucket by its waits', () => {
  assert.deepEqual(middle([{ count: 1, medianSeconds: 5 }, { count: 0, medianSeconds: null }, { count: 9, medianSeconds: 60 }]), { median: 60, count: 10 });
  assert.equal(middle([{ count: 0, medianSeconds: null }]), null);
});

test('no period is longer than the server takes, and each ends now', () => {
  const now = Date.parse('2026-11-16T10:20:30Z');
  for (const [range, most] of [['day', 1], ['week', 7], ['month', 31]]) {
    const { from, to } = period(range, now);
    assert.equal(to, new Date(now).toISOString());
    assert.ok(Date.parse(from) < now && now - Date.parse(from) <= most * 24 * HOUR * 1000, range);
  }
});
