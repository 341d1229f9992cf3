// Members, roles and tokens.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { together } from './support/browser.mjs';
import { PASSWORD, remember } from './support/server.mjs';

const dashboard = together();

/** The status that a real HTTP client gets with this token. */
const curl = (server, token) => execFileSync('curl', [
  '-sS', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Authorization: Bearer ${token}`, `${server.url}/api/v1/organizations/acme/pipelines`,
], { encoding: 'utf8' });

dashboard.test('a token made in the dashboard works with curl until it is revoked there', async ({ server, person }) => {
  const tab = await person('ana', '/acme/settings/tokens');
  await tab.heading(/Tokens/);
  await tab.click('button', /^(Create|Make|New) .*token/i);
  const dialog = await tab.find('dialog');
  await tab.fill(/name/i, 'my laptop', { within: dialog });
  await tab.click('button', /^(Create|Make)/i, { within: dialog });
  const token = await tab.until('the token is shown', async () => {
    const shown = await tab.page.evaluate(() => [document.body.innerText, ...[...document.querySelectorAll('input')].map((one) => one.value)].join('\n'));
    return shown.match(/lk_\w{36}/)?.[0];
  });
  remember(token);
  assert.equal(curl(server, token), '200');
  await tab.go('/acme/settings/tokens');
  await tab.sees(/my laptop/);
  assert.ok(!(await tab.page.content()).includes(token), 'it is shown once');
  await tab.click('button', /^Revoke.*my laptop/);
  await tab.click('button', /^Revoke/, { within: await tab.find('dialog') });
  await tab.gone('button', /^Revoke.*my laptop/);
  assert.equal(curl(server, token), '401');
});

dashboard.test('a viewer sees no buttons, and what a page of theirs sends is refused', async ({ server, person }) => {
  await (await server.as('ana')).claim('web/review-1', { context: 'to be seen' });
  const tab = await person('vic', '/acme/web');
  await tab.sees(/to be seen/);
  for (const address of ['/acme/web', '/acme/web/review-1', '/acme/web/review-2', '/acme']) {
    await tab.go(address);
    await tab.find('heading');
    await tab.sees(/review-|Web shop/);
    const forbidden = await tab.all('button', /^(Claim|Release|Force-claim|Extend|Stop|Resume|Approve|Reject|Add|Invite)/);
    assert.deepEqual(forbidden.map((button) => button.name), [], address);
  }
  const base = '/api/v1/organizations/acme';
  for (const [method, path, body] of [
    ['POST', '/pipelines/web/ephemeral-environments/review-2/sessions', {}],
    ['POST', '/pipelines/web/ephemeral-environments/review-1/force-claim', {}],
    ['DELETE', '/pipelines/web/ephemeral-environments/review-1/lock'],
    ['POST', '/pipelines/web/stop', {}],
    ['POST', '/members', { name: 'eve', role: 'admin' }],
    ['POST', '/secrets', { name: 'A', value: 'b' }],
  ]) {
    assert.equal((await tab.call(method, base + path, body)).status, 403, `${method} ${path}`);
  }
  await server.admin.release('web/review-1');
});

dashboard.test('a member is added, invited, promoted, disabled and removed', async ({ server, person, open }) => {
  const tab = await person('admin', '/acme/settings/members');
  await tab.heading('Members');
  await tab.click('button', 'Add member');
  const dialog = await tab.find('dialog');
  await tab.fill('Name', 'otto', { within: dialog });
  await tab.click('button', 'Add member', { within: dialog });
  const link = await (await tab.find('textbox', 'Invitation link')).value();
  remember(new URL(link).hash.slice(1));
  const guest = await open();
  await guest.go(link);
  await guest.sees(/You are otto/);
  await tab.press('Escape');
  await tab.gone('dialog');

  const otto = async () => (await server.admin.get('/members')).find((one) => one.name === 'otto');
  const choose = async (item) => {
    await tab.click('button', 'Actions for otto');
    await tab.click('menuitem', item);
    return tab.find('dialog');
  };
  const change = await choose('Change…');
  await (await tab.find('combobox', 'Role', { within: change })).choose('maintainer');
  await tab.click('button', 'Save', { within: change });
  await tab.gone('dialog');
  assert.equal((await otto()).role, 'maintainer');
  await tab.click('button', 'Disable otto', { within: await choose('Disable…') });
  await tab.gone('dialog');
  assert.equal((await otto()).disabled, true);
  await tab.click('button', 'Remove otto', { within: await choose('Remove otto…') });
  await tab.gone('button', 'Actions for otto');
  assert.equal(await otto(), undefined);
});

dashboard.test('an open menu stays while the list is read again', async ({ server, person }) => {
  const tab = await person('admin', '/acme/settings/members');
  await tab.click('button', 'Actions for mia');
  const read = tab.page.waitForResponse((answer) => new URL(answer.url()).pathname.endsWith('/members'));
  const { userId } = await server.admin.post('/members', { name: 'kim', role: 'viewer' });
  await read;
  await tab.find('menuitem', 'Change…');
  assert.deepEqual(await tab.all('button', 'Actions for kim'), []);
  await tab.press('Escape');
  await tab.find('button', 'Actions for kim');
  await server.admin.del(`/members/${userId}`);
});

dashboard.test('the last admin is not demoted, and the page says why', async ({ person }) => {
  const tab = await person('admin', '/acme/settings/members');
  await tab.click('button', 'Actions for admin');
  await tab.click('menuitem', 'Change…');
  const dialog = await tab.find('dialog');
  await (await tab.find('combobox', 'Role', { within: dialog })).choose('viewer');
  await tab.click('button', 'Save', { within: dialog });
  await tab.sees(/last|only|another admin/i, { within: dialog });
});

dashboard.test('a new password ends the other sign-ins, and signing out everywhere ends all', async ({ server, person }) => {
  await server.givePassword('ben');
  const [here, elsewhere] = [await person('ben', '/acme/settings/account'), await person('ben', '/acme/web')];
  await elsewhere.heading('Web shop');
  await here.fill('Current password', PASSWORD);
  remember('another-password-of-bens');
  await here.fill('New password', 'another-password-of-bens');
  await here.fill('New password again', 'another-password-of-bens');
  await here.click('button', 'Change password');
  await elsewhere.heading('Sign in');
  await here.click('button', 'Sign out everywhere');
  await here.click('button', 'Sign out everywhere', { within: await here.find('dialog') });
  await here.heading('Sign in');
});

dashboard.test('a new role acts on the next request and the page follows', async ({ server, person }) => {
  const tab = await person('ben', '/acme/web');
  await tab.find('button', /^Claim review-2/);
  const { userId } = (await server.admin.get('/members')).find((one) => one.name === 'ben');
  await server.admin.patch(`/members/${userId}`, { role: 'viewer' });
  const { status } = await tab.call('POST', '/api/v1/organizations/acme/pipelines/web/ephemeral-environments/review-2/sessions', {});
  assert.equal(status, 403);
  await tab.go('/acme/web');
  await tab.find('link', /^review-2/);
  await tab.gone('button', /^Claim review-2/);
  await server.admin.patch(`/members/${userId}`, { role: 'developer' });
});

dashboard.test('who is disabled is signed out', async ({ server, person }) => {
  const tab = await person('mia', '/acme/web');
  await tab.find('button', /^Claim review-2/);
  const { userId } = (await server.admin.get('/members')).find((one) => one.name === 'mia');
  await server.admin.patch(`/members/${userId}`, { disabled: true });
  await tab.click('link', /^review-2/);
  await tab.heading('Sign in');
  await server.admin.patch(`/members/${userId}`, { disabled: false });
});
