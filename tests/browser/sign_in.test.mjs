// Signing in and out, invitations, and the first start.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { launch, together } from './support/browser.mjs';
import { PASSWORD, Server, remember } from './support/server.mjs';
import { Tab } from './support/tab.mjs';

const dashboard = together();
/** Where a sign-in leads to: the board of a pipeline. */
const HOME = /^\/acme\/\w+$/;

async function signIn(tab, name, password = PASSWORD) {
  await tab.fill('Organization', 'acme');
  await tab.fill('Name', name);
  await tab.fill('Password', password);
  await tab.click('button', 'Sign in');
}

dashboard.test('a member signs in with a password and out again', async ({ server, open }) => {
  await server.givePassword('ana');
  const tab = await open();
  await tab.go('/');
  await tab.heading('Sign in');
  await signIn(tab, 'ana');
  await tab.at(HOME);
  await tab.click('button', /\bana\b/, { within: await tab.find('banner') });
  await tab.click('menuitem', 'Sign out');
  await tab.heading('Sign in');
  assert.equal((await tab.call('GET', '/api/v1/whoami')).status, 401);
});

dashboard.test('a wrong password is refused in words and the name stays filled in', async ({ server, open }) => {
  await server.givePassword('ben');
  const tab = await open();
  await tab.go('/sign-in');
  await signIn(tab, 'ben', 'not-the-password');
  await tab.sees(/password is wrong|wrong|not right|do not match/i);
  assert.equal(await (await tab.find('textbox', 'Name')).value(), 'ben');
});

dashboard.test('a token signs in too', async ({ server, open }) => {
  const { token } = await server.as('mia');
  const tab = await open();
  await tab.go('/sign-in');
  await tab.click('button', 'Use a token');
  await tab.fill('Token', token);
  await tab.click('button', 'Sign in');
  await tab.at(HOME);
  const { text } = await tab.call('GET', '/api/v1/whoami');
  assert.equal(JSON.parse(text).data.user.name, 'mia');
});

dashboard.test('a link to an environment leads there after signing in', async ({ server, open }) => {
  await server.givePassword('ana');
  const tab = await open();
  await tab.go('/acme/web/review-3');
  await tab.heading('Sign in');
  await signIn(tab, 'ana');
  await tab.at('/acme/web/review-3');
  await tab.heading('review-3');
});

dashboard.test('an invitation lets somebody choose a password, once', async ({ server, open }) => {
  await server.admin.post('/members', { name: 'nora', role: 'developer' });
  const invitation = await server.invitation('nora');
  const tab = await open();
  await tab.go(invitation);
  await tab.sees(/nora/);
  await tab.fill('New password', 'a-password-of-noras-own');
  remember('a-password-of-noras-own');
  await tab.click('button', 'Set password');
  await tab.at(HOME);
  const second = await open();
  await second.go(invitation);
  await second.heading('This invitation no longer works');
});

dashboard.test('the cookie is out of reach of scripts', async ({ person }) => {
  const tab = await person('ana', '/acme');
  await tab.heading(/./);
  assert.equal(await tab.page.evaluate(() => document.cookie), '');
  const [cookie] = await tab.context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
});

test('the printed address leads to a first claim in three clicks', async () => {
  const server = await Server.start({ bootstrap: false });
  const browser = await launch();
  try {
    const tab = await Tab.open(await browser.createBrowserContext(), server);
    const password = server.line(/password (\S+)/)[1];
    remember(password);
    await tab.go(server.line(/(http\S+\/sign-in\S*)/)[1]);
    await tab.fill('Password', password);
    await tab.click('button', 'Sign in');
    const claim = await tab.find('button', /^Claim [a-z]+-\d$/);
    await claim.click();
    await tab.click('button', claim.name, { within: await tab.find('dialog') });
    await tab.find('button', claim.name.replace('Claim', 'Release'));
    assert.equal(tab.clicks, 3);
    const [session] = await server.admin.get('/sessions');
    assert.deepEqual([session.user.name, `Claim ${session.envName}`], ['admin', claim.name]);
    tab.faults.check();
  } finally {
    await browser.close();
    await server.stop();
  }
});
