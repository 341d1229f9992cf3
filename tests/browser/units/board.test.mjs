// The order of environments on the board, and the fields that its filter searches.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';

const { COUNTED, compare, haystack, rank } = await import(join(process.env.WEB, 'parts/board-order.js'));

const lock = (name, more = {}) => ({ user: { name }, context: null, commitId: null, claimedAt: '2026-11-16T09:00:00.000Z', expiresAt: null, ...more });
const one = (envName, lockStatus = 'unlocked', more = {}) => ({ envName, lockStatus, lock: null, queueLength: 0, isMine: false, labels: {}, ...more });

function inOrder(order, environments) {
  rank([...environments]);
  return environments.sort((a, b) => compare(order, a, b)).map(({ envName }) => envName);
}

test('mine come first, then those with a queue, then locked, resetting, free, disabled', () => {
  const environments = [
    one('f-disabled', 'disabled'), one('e-free'), one('d-resetting', 'resetting'), one('c-locked', 'locked', { lock: lock('ana') }),
    one('b-queue', 'locked', { lock: lock('ana'), queueLength: 2 }), one('z-mine', 'locked', { lock: lock('me'), isMine: true }),
  ];
  assert.deepEqual(inOrder('turn', environments), ['z-mine', 'b-queue', 'c-locked', 'd-resetting', 'e-free', 'f-disabled']);
});

test('names with numbers are in the order in which people count', () => {
  assert.deepEqual(inOrder('name', [one('review-10'), one('review-9'), one('review-1')]), ['review-1', 'review-9', 'review-10']);
});

test('what expires next comes first, what never does after it, and free ones last', () => {
  const soon = one('soon', 'locked', { lock: lock('ana', { expiresAt: '2026-11-16T10:00:00.000Z' }) });
  const later = one('later', 'locked', { lock: lock('ana', { expiresAt: '2026-11-16T11:00:00.000Z' }) });
  const never = one('never', 'locked', { lock: lock('ana') });
  assert.deepEqual(inOrder('expiry', [one('free'), never, later, soon]), ['soon', 'later', 'never', 'free']);
});

test('an order that an older version stored is taken for the usual one', () => {
  assert.deepEqual(inOrder('by-colour', [one('free'), one('held', 'locked', { lock: lock('ana') })]), ['held', 'free']);
});

test('the filter finds names, holders, contexts, commits, labels and states', () => {
  const text = haystack(one('Review-7', 'locked', { lock: lock('Ana', { context: 'PR 412', commitId: 'C0FFEE1' }), labels: { size: 'large' } }));
  for (const term of ['review-7', 'ana', 'pr 412', 'c0ffee1', 'size:large', 'locked']) assert.ok(text.includes(term), term);
  assert.ok(haystack(one('review-8')).includes('free'));
});

test('each state counts its own', () => {
  const environments = [one('a'), one('b', 'locked', { lock: lock('ana'), queueLength: 1 }), one('c', 'disabled')];
  const counts = Object.fromEntries(Object.entries(COUNTED).map(([key, is]) => [key, environments.filter(is).length]));
  assert.deepEqual(counts, { mine: 0, free: 1, locked: 1, waiting: 1, resetting: 0, disabled: 1 });
});
