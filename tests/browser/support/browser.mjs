// Chromium, one per test file, and the tabs of a test. Each person has separate cookies.
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { Server, remember } from './server.mjs';
import { Tab } from './tab.mjs';

export const fromNpm = createRequire(`${process.cwd()}/target/test-tools/browser/package.json`);

// Tests take seconds, the one that visits all pages most of a minute; this limit is for hanging tests.
const TEST_MS = 300_000;

export function launch(options = {}) {
  return fromNpm('puppeteer-core').launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      // The tests often run as root in a container, where Chromium's own sandbox cannot work; it opens only our own pages.
      '--no-sandbox',
      // Containers have a small /dev/shm.
      '--disable-dev-shm-usage',
      '--force-color-profile=srgb',
    ],
    defaultViewport: { width: 1280, height: 800 },
    ...options,
  });
}

/** One browser and one server for all tests of a file: `const lock = together(); lock.test('…', async ({ open, server }) => …)`. */
export function together(options) {
  const shared = {};
  before(async () => {
    // Both are stored before a failure of one is reported: a browser that is never closed would keep the tests from
    // ending.
    const [server, browser] = await Promise.allSettled([Server.start(options), launch()]);
    [shared.server, shared.browser] = [server.value, browser.value];
    const failed = [server, browser].find(({ status }) => status === 'rejected');
    if (failed) throw failed.reason;
  });
  after(async () => {
    await Promise.all([shared.browser?.close(), shared.server?.stop()]);
  });
  return {
    test: (claim, body) => test(claim, { timeout: TEST_MS }, () => withTabs(shared, body)),
  };
}

async function withTabs({ server, browser }, body) {
  const contexts = [];
  const tabs = [];
  const open = async () => {
    const context = await browser.createBrowserContext();
    contexts.push(context);
    const tab = await Tab.open(context, server);
    tab.context = context;
    tabs.push(tab);
    return tab;
  };
  try {
    await body({
      server,
      browser,
      /** A tab of somebody who has not signed in. */
      open,
      /** A tab of a member who has, at an address. */
      person: async (name, address) => (await open()).signedIn(name, address),
    });
    for (const tab of tabs) tab.faults.check();
  } catch (error) {
    for (const tab of tabs) tab.faults.explain(error);
    throw error;
  } finally {
    await Promise.all(contexts.map(async (context) => {
      remember(...(await context.cookies()).map(({ value }) => value));
      await context.close();
    }));
    // Locks left by a failed test must not make the next one fail.
    await server.admin.releaseAll().catch(() => undefined);
  }
}
