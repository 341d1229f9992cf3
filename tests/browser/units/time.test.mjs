// Times in the form shown to people.
import assert from 'node:assert/strict';
import { test } from 'node:test';

// The module has a timer for as long as its page is open; a test ends.
globalThis.setInterval = () => 0;
const { duration, relative } = await import(`${process.env.WEB}/lib/time.js`);

test('a duration has at most two units', () => {
  for (const [seconds, words] of [
    [0, '0 s'], [45, '45 s'], [60, '1 min'], [90, '1 min 30 s'], [14 * 60, '14 min'],
    [2 * 3600 + 5 * 60, '2 h 5 min'], [3600, '1 h'], [76 * 3600, '3 d 4 h'], [-5, '0 s'],
  ]) assert.equal(duration(seconds), words);
});

test('a time is said as seen from now', () => {
  const from = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();
  assert.equal(relative(from(0)), 'just now');
  assert.equal(relative(from(-180)), '3 min ago');
  assert.equal(relative(from(181)), 'in 3 min');
});
