// A lost connection is shown, and missed changes are loaded afterwards.
import { together } from './support/browser.mjs';

const dashboard = together();

dashboard.test('a lost connection is shown, and after it everything is up to date without a reload', async ({ server, person }) => {
  const ana = await server.as('ana');
  const tab = await person('ana', '/acme/web');
  await tab.find('button', /^Claim review-1/);
  await tab.sees(/\blive\b/i);
  await tab.page.evaluate(() => { window.sameDocument = true; });
  tab.faults.serverIsDown = true;
  await server.kill();
  await tab.sees(/Connection lost since/);
  await server.startAgain();
  await ana.claim('web/review-1', { context: 'made while nobody looked' });
  await tab.sees(/made while nobody looked/);
  await tab.until('the bar is gone', async () => !/Connection lost since/.test(await tab.text()));
  await ana.release('web/review-1');
  await tab.find('button', /^Claim review-1/);
  if (!await tab.page.evaluate(() => window.sameDocument)) throw new Error('the page was loaded again');
});

dashboard.test('a sign-in survives a restart of the server', async ({ server, person }) => {
  const tab = await person('ben', '/acme/web');
  await tab.find('button', /^Claim review-2/);
  tab.faults.serverIsDown = true;
  await server.kill();
  await server.startAgain();
  await tab.go('/acme/web/review-2');
  await tab.heading('review-2');
  await tab.find('button', /^Claim review-2/);
});
