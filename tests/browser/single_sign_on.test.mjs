// Signing in through an OpenID provider: a real one, with its own pages.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { launch } from './support/browser.mjs';
import { Server, remember } from './support/server.mjs';
import { Tab } from './support/tab.mjs';

const CLIENT_SECRET = 'client-secret-of-the-browser-tests';

test('a person signs in through the OpenID provider with the role of their group', async (t) => {
  if (spawnSync('tests/sso/install', { stdio: 'inherit' }).status !== 0) return t.skip('the provider cannot be installed by npm');
  remember(CLIENT_SECRET);
  // The provider must know the address of the server, and vice versa.
  const port = await freePort();
  const provider = await startProvider(`http://127.0.0.1:${port}/auth/oidc/test/callback`);
  const server = await Server.start({ port, organization: organization(provider.issuer) });
  const browser = await launch();
  try {
    const tab = await Tab.open(await browser.createBrowserContext(), server);
    tab.faults.otherOrigins.add(provider.issuer);
    await tab.go('/acme/web/review-2');
    // The providers of an organization are offered once it is known.
    await tab.fill('Organization', 'acme');
    await tab.press('Tab');
    await tab.click('link', 'Continue with Test provider');
    await tab.fill('Name', 'olga');
    await tab.fill('Password', 'olga');
    await tab.click('button', 'Sign in');
    await tab.at('/acme/web/review-2');
    await tab.heading('review-2');
    await tab.find('button', /^Claim review-2/);
    const { text } = await tab.call('GET', '/api/v1/whoami');
    assert.equal(JSON.parse(text).data.role, 'developer');
    tab.faults.check();
  } finally {
    await browser.close();
    await server.stop();
    provider.process.kill();
  }
});

function organization(issuer) {
  return `${readFileSync('config/acme.toml', 'utf8')}
[[providers]]
id = "test"
name = "Test provider"
issuer = "${issuer}"
client_id = "lockkeeper"
client_secret = "${CLIENT_SECRET}"
scopes = ["profile", "email", "groups"]
roles = [{ group = "developers", role = "developer" }]
`;
}

async function startProvider(redirect) {
  const program = spawn('node', [
    'tests/sso/provider.mjs', '--port', '0', '--client', 'lockkeeper', '--secret', CLIENT_SECRET, '--redirect', redirect, '--user', 'olga:developers',
  ], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(createInterface({ input: program.stdout }), 'line');
  return { process: program, issuer: JSON.parse(line).issuer };
}

async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}
