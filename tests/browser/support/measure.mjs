// Performance of the board with 2,000 environments and 50 changes per second. Prints a report; asserts nothing.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from './browser.mjs';
import { fleet } from './dataset.mjs';
import { Server } from './server.mjs';
import { Tab } from './tab.mjs';

const ENVIRONMENTS = 2000;
const CHANGES_PER_SECOND = 50;
// The interval for measuring the memory and the delay until a change is visible.
const SAMPLE_MS = 2000;
const LONG_FRAME_MS = 50;

const seconds = Number(process.argv[2] ?? 60);
const server = await Server.start();
const browser = await launch();
try {
  const names = await fleet(server, ENVIRONMENTS);
  const tab = await Tab.open(await browser.createBrowserContext(), server);
  await tab.signedIn('mia', '/sign-in');
  const paint = await firstPaint(tab);
  await tab.page.evaluate(watchFrames);
  const changes = change(names);
  const samples = await sample(tab);
  const made = await changes;
  report({ paint, made, samples, frames: await tab.page.evaluate(() => window.frames_) });
  tab.faults.check();
} finally {
  await browser.close();
  await server.stop();
}

/** From the request for the page to the first row that can be read, by a browser that has the page for the first time. */
async function firstPaint(tab) {
  await tab.page.setCacheEnabled(false);
  await tab.page.evaluateOnNewDocument(() => {
    const look = () => {
      if (document.body?.innerText.includes('env-0')) window.firstRow = performance.now();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  const times = [];
  for (let turn = 0; turn < 5; turn += 1) {
    await tab.go('/acme/fleet');
    await tab.until('the board shows a row', () => tab.page.evaluate(() => window.firstRow !== undefined));
    times.push(await tab.page.evaluate(() => ({
      firstPaint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
      firstRow: window.firstRow,
      bytes: performance.getEntriesByType('resource').filter(({ name }) => name.includes('/assets/')).reduce((sum, one) => sum + one.decodedBodySize, 0),
    })));
  }
  await tab.settled();
  return Object.fromEntries(Object.keys(times[0]).map((key) => [key, middle(times.map((one) => one[key]))]));
}

/** Runs in the page: notes the time between frames. */
function watchFrames() {
  window.frames_ = [];
  let before = performance.now();
  const frame = (now) => {
    if (!window.collecting) window.frames_.push(now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

/** Claims and releases of two clients, evenly spread; none of them by the person who looks. */
async function change(names) {
  const clients = [await server.as('ana'), await server.as('admin')];
  // Every third one is locked from the beginning, and the second is for the samples.
  const free = names.filter((_, index) => index % 3 !== 0 && index !== 1);
  const beginning = performance.now();
  const pending = [];
  const held = [];
  let made = 0;
  for (let turn = 0; turn < seconds * CHANGES_PER_SECOND; turn += 1) {
    const due = beginning + (turn * 1000) / CHANGES_PER_SECOND;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((done) => setTimeout(done, wait));
    const client = clients[turn % clients.length];
    const name = free[(turn * 7) % free.length];
    const step = turn % 2 === 0 || held.length < 10
      ? client.claim(`fleet/${name}`, { context: `change ${turn}`, commitId: `c${turn}` }).then(() => held.push(name))
      : server.admin.release(`fleet/${held.shift()}`);
    pending.push(step.then(() => { made += 1; }, () => undefined));
  }
  await Promise.all(pending);
  return { made, perSecond: made / ((performance.now() - beginning) / 1000) };
}

/** Again and again: a change of the person's own, which the board shows on top, and the memory after a collection. */
async function sample(tab) {
  const mia = await server.as('mia');
  const end = performance.now() + seconds * 1000;
  const seen = [];
  const heap = [];
  for (let turn = 0; performance.now() < end; turn += 1) {
    const text = `probe-${turn}-`;
    const shown = tab.page.evaluate(waitForText, text);
    const sent = Date.now();
    const name = 'fleet/env-0002';
    await mia.claim(name, { context: text });
    seen.push((await shown) - sent);
    await mia.release(name);
    // A forced full collection blocks the page; real browsers do not do that, so its frames do not count.
    if (turn % 5 === 0) {
      await tab.page.evaluate(() => { window.collecting = true; });
      await tab.devtools.send('HeapProfiler.collectGarbage');
      heap.push(await tab.page.evaluate(() => performance.memory.usedJSHeapSize));
      await tab.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => { window.collecting = false; done(); }))));
    }
    await new Promise((done) => setTimeout(done, SAMPLE_MS));
  }
  return { seen, heap };
}

/** Runs in the page: when this text has been painted. */
function waitForText(text) {
  return new Promise((done) => {
    const look = () => {
      if (document.body.innerText.includes(text)) requestAnimationFrame(() => done(Date.now()));
      else return false;
      return true;
    };
    if (look()) return;
    const observer = new MutationObserver(() => look() && observer.disconnect());
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  });
}

function report({ paint, made, samples, frames }) {
  const ms = (number) => `${number.toFixed(number < 10 ? 1 : 0)} ms`;
  const kb = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
  const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
  const long = frames.filter((time) => time > LONG_FRAME_MS);
  const { seen, heap } = samples;
  const rows = [
    ['environments', ENVIRONMENTS],
    ['changes', `${made.made} in ${seconds} s, ${made.perSecond.toFixed(1)} per second`],
    ['first contentful paint, median of 5', ms(paint.firstPaint)],
    ['first row of the board, median of 5', ms(paint.firstRow)],
    ['from a change to its being painted, median / p95 / longest', [0.5, 0.95, 1].map((part) => ms(quantile(seen, part))).join(' / ')],
    ['frames, median / p99 / longest', [0.5, 0.99, 1].map((part) => ms(quantile(frames, part))).join(' / ')],
    [`frames longer than ${LONG_FRAME_MS} ms`, `${long.length} of ${frames.length}`],
    ['JavaScript memory, first / middle / last', [heap[0], heap[Math.floor(heap.length / 2)], heap.at(-1)].map(mb).join(' / ')],
    ['scripts and styles, uncompressed: of the board / of all pages', `${kb(paint.bytes)} / ${kb(assets('src/server/dashboard/web'))}`],
  ];
  for (const [what, value] of rows) console.log(`| ${what} | ${value} |`);
}

function assets(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .map((entry) => (entry.isDirectory() ? assets(join(folder, entry.name)) : statSync(join(folder, entry.name)).size))
    .reduce((sum, size) => sum + size, 0);
}

function quantile(numbers, part) {
  const sorted = [...numbers].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

function middle(numbers) {
  return quantile(numbers, 0.5);
}
