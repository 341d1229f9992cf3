// Every page has an address; back and forward work.
import assert from 'node:assert/strict';
import { together } from './support/browser.mjs';

const dashboard = together();

dashboard.test('back and forward lead through the pages as they were visited', async ({ person }) => {
  const tab = await person('ana', '/acme');
  await tab.click('link', /^Web shop/, { within: await tab.find('main') });
  await tab.at('/acme/web');
  await tab.click('link', /^review-3/);
  await tab.at('/acme/web/review-3');
  await tab.heading('review-3');
  await tab.page.goBack();
  await tab.at('/acme/web');
  await tab.find('link', /^review-1/);
  await tab.page.goBack();
  await tab.at('/acme');
  await tab.page.goForward();
  await tab.page.goForward();
  await tab.at('/acme/web/review-3');
  await tab.heading('review-3');
  assert.match(await tab.page.title(), /review-3/);
});

dashboard.test('filters of the events are part of the address', async ({ server, person }) => {
  await (await server.as('ana')).claim('web/review-1', { context: 'for the events' });
  await server.admin.release('web/review-1');
  const tab = await person('ana', '/acme/-/events?type=session.claimed');
  await tab.sees(/session\.claimed|claimed/);
  assert.doesNotMatch(await (await tab.find('main')).text(), /session\.released/);
});

dashboard.test('an address of nothing says so and leads back', async ({ person }) => {
  const tab = await person('ana', '/acme/web/no-such-environment');
  await tab.sees(/no.such.environment|not found|does not exist|no environment/i);
  await tab.find('link', /web|acme/i);
});
