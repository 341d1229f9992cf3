// Everything can be done without a mouse.
import assert from 'node:assert/strict';
import { together } from './support/browser.mjs';
import { PASSWORD } from './support/server.mjs';

const dashboard = together();

dashboard.test('signing in needs the keyboard alone', async ({ server, open }) => {
  await server.givePassword('ana');
  const tab = await open();
  await tab.go('/sign-in?organization=acme&name=ana');
  await tab.heading('Sign in');
  await tab.tabTo('textbox', 'Password');
  await tab.page.keyboard.type(PASSWORD);
  await tab.press('Enter');
  await tab.at(/^\/acme\/\w+$/);
});

dashboard.test('j and k walk through the board, Enter opens, c claims and r releases', async ({ server, person }) => {
  const tab = await person('ana', '/acme/web');
  await tab.find('button', /^Claim review-1/);
  await tab.press('j', 'j', 'k', 'c');
  const dialog = await tab.find('dialog');
  await tab.sees(/review-\d/, { within: dialog });
  const name = (await dialog.text()).match(/review-\d/)[0];
  await tab.tabTo('button', new RegExp(`^Claim ${name}`));
  await tab.press('Enter');
  await tab.find('button', `Release ${name}`);
  assert.equal((await server.admin.environment(`web/${name}`)).lock.user.name, 'ana');
  await tab.gone('dialog');
  await tab.press('j', 'k', 'k', 'k');
  await tab.press('Enter');
  await tab.heading(name);
  await tab.press('r');
  await tab.find('dialog');
  await tab.tabTo('button', `Release ${name}`);
  await tab.press('Enter');
  await tab.find('button', `Claim ${name}`);
});

dashboard.test('/ goes to the filter, ? shows the keys, Escape closes them, Ctrl-K goes anywhere', async ({ person }) => {
  const tab = await person('ana', '/acme/web');
  await tab.find('button', /^Claim review-1/);
  await tab.press('/');
  assert.match((await tab.focused()).role, /searchbox|textbox/);
  await tab.press('Escape');
  await tab.page.evaluate(() => document.activeElement.blur());
  await tab.page.keyboard.type('?');
  await tab.sees(/keyboard|keys/i, { within: await tab.find('dialog') });
  await tab.press('Escape');
  await tab.gone('dialog');
  await tab.page.keyboard.down('Control');
  await tab.press('k');
  await tab.page.keyboard.up('Control');
  await tab.find('dialog');
  await tab.page.keyboard.type('review-3');
  await tab.sees(/review-3/, { within: await tab.find('dialog') });
  await tab.press('Enter');
  await tab.at('/acme/web/review-3');
});

dashboard.test('the main actions of an environment are reached with Tab', async ({ server, person }) => {
  await (await server.as('ben')).claim('web/review-2', { context: 'by ben' });
  const tab = await person('ana', '/acme/web/review-2');
  await tab.find('button', /^Force-claim/);
  await tab.tabTo('button', /^Force-claim/);
  await tab.press('Enter');
  await tab.find('dialog');
  await tab.tabTo('textbox', 'Context');
  await tab.page.keyboard.type('by keyboard');
  await tab.tabTo('button', /^Force-claim/);
  await tab.press('Enter');
  await tab.find('button', /^Release review-2/);
  assert.equal((await server.admin.environment('web/review-2')).lock.context, 'by keyboard');
  await server.admin.release('web/review-2');
});

dashboard.test('the focus is visible and begins at the heading of a new page', async ({ person }) => {
  const tab = await person('ana', '/acme/web');
  await tab.find('link', /^review-3/);
  await tab.tabTo('link', /^review-3/);
  const focused = await tab.focused();
  const isMarked = await focused.run(function () {
    return [this, this.closest('[role=row]')].some((element) => {
      const { outlineStyle, boxShadow } = getComputedStyle(element);
      return outlineStyle !== 'none' || boxShadow !== 'none';
    });
  });
  assert.ok(isMarked, 'the link or its row is marked');
  await tab.press('Enter');
  await tab.heading('review-3');
  await tab.until('the heading has the focus', async () => (await tab.focused())?.role === 'heading');
});
