// The board and an environment: claiming, and seeing the actions of others.
import assert from 'node:assert/strict';
import { together } from './support/browser.mjs';

const dashboard = together();

dashboard.test('a claim on the board shows its holder, context and commit', async ({ server, person }) => {
  const tab = await person('ana', '/acme/web');
  await tab.click('button', /^Claim review-1/);
  const dialog = await tab.find('dialog');
  await tab.fill('Commit', 'c0ffee1', { within: dialog });
  await tab.fill('Context', 'PR 412', { within: dialog });
  await tab.click('button', /^Claim/, { within: dialog });
  await tab.find('button', /^Release review-1/);
  await tab.sees(/PR 412/);
  await tab.sees(/c0ffee1/);
  const { lock } = await server.admin.environment('web/review-1');
  assert.deepEqual([lock.user.name, lock.context, lock.commitId], ['ana', 'PR 412', 'c0ffee1']);
  await server.admin.release('web/review-1');
  await tab.find('button', /^Claim review-1/);
});

dashboard.test('the force-claim of another client appears without a reload', async ({ server, person }) => {
  const [ana, ben] = [await server.as('ana'), await server.as('ben')];
  await ana.claim('web/review-2', { context: 'a long test' });
  const board = await person('mia', '/acme/web');
  const page = await person('mia', '/acme/web/review-2');
  const holder = await person('ana', '/acme/web/review-2');
  const everybody = [board, page, holder];
  for (const tab of everybody) {
    await tab.sees(/a long test/);
    await tab.page.evaluate(() => { window.sameDocument = true; });
  }
  await ben.forceClaim('web/review-2', { context: 'hotfix' });
  await board.sees(/ben\s+hotfix/);
  await page.sees(/hotfix/);
  await holder.sees(/ben took review-2 from you/);
  for (const tab of everybody) assert.equal(await tab.page.evaluate(() => window.sameDocument), true);
});

dashboard.test('a force-claim names the holder before it takes the lock', async ({ server, person }) => {
  await (await server.as('ben')).claim('web/review-2', { context: 'load test', commitId: 'decade2' });
  const tab = await person('ana', '/acme/web/review-2');
  await tab.click('button', /^Force-claim review-2/);
  const dialog = await tab.find('dialog');
  await tab.sees(/ben[^]*load test/, { within: dialog });
  await tab.fill('Context', 'hotfix', { within: dialog });
  await tab.click('button', /^Force-claim review-2/, { within: dialog });
  await tab.find('button', /^Release review-2/);
  assert.equal((await server.admin.environment('web/review-2')).lock.context, 'hotfix');
});

dashboard.test('who waits sees the queue in order and their own place', async ({ server, person }) => {
  const [ben, mia] = [await server.as('ben'), await server.as('mia')];
  await ben.claim('web/review-3', { context: 'first' });
  await mia.claim('web/review-3', { queue: true, context: 'second' });
  const tab = await person('ana', '/acme/web/review-3');
  await tab.sees(/mia/);
  await tab.click('button', /^Wait in the queue/);
  await tab.click('button', 'Wait in the queue', { within: await tab.find('dialog') });
  await tab.sees(/mia[^]*ana/);
  await ben.release('web/review-3');
  await tab.sees(/second/);
  await mia.release('web/review-3');
  await tab.sees(/review-3 is yours now/);
  assert.equal((await server.admin.environment('web/review-3')).lock.user.name, 'ana');
});

dashboard.test('the holder extends the lease and releases', async ({ server, person }) => {
  await (await server.as('ana')).claim('web/review-1', { ttlSeconds: 600 });
  const before = (await server.admin.environment('web/review-1')).lock.expiresAt;
  const tab = await person('ana', '/acme/web/review-1');
  await tab.click('button', /^Extend/);
  await tab.until('the lease is longer', async () => (await server.admin.environment('web/review-1')).lock.expiresAt > before);
  await tab.click('button', /^Release review-1/);
  await tab.find('button', /^Claim review-1/);
  assert.equal((await server.admin.environment('web/review-1')).lockStatus, 'unlocked');
});

dashboard.test('a refused claim is explained in the words of the API', async ({ person }) => {
  const tab = await person('ana', '/acme/web');
  await tab.click('button', /^Claim review-1/);
  const dialog = await tab.find('dialog');
  await tab.fill('Commit', '-no-commit', { within: dialog });
  await tab.click('button', /^Claim/, { within: dialog });
  await tab.sees(/must|cannot|begin/i, { within: dialog });
});

dashboard.test('the filter finds environments by name, holder and label', async ({ server, person }) => {
  await (await server.as('ben')).claim('web/review-2', { context: 'only here' });
  const tab = await person('ana', '/acme/web');
  const filter = await tab.until('there is a filter', async () => [...await tab.all('searchbox'), ...await tab.all('textbox', /filter/i)][0]);
  for (const [text, shown] of [['review-3', 'review-3'], ['ben', 'review-2'], ['large', 'review-3']]) {
    await filter.fill(text);
    await tab.until(`${text} shows ${shown} alone`, async () => {
      const links = (await tab.all('link', /^review-\d/)).map((link) => link.name.match(/review-\d/)[0]);
      return links.length === 1 && links[0] === shown;
    });
  }
});
