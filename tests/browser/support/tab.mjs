// A page of the dashboard from a person's view: elements are found by role and name, as by a screen reader, and awaited
// by watching the page change.
import { mkdirSync } from 'node:fs';
import { Element } from './element.mjs';
import { Faults } from './faults.mjs';

// The longest time that a person would wait. Only a failing test waits this long.
const PATIENCE_MS = 60_000;
// Checks again after this time if nothing in the document has changed: a value typed into a field changes no node.
const LOOK_AGAIN_MS = 100;
const PICTURES = 'target/browser';

export class Tab {
  clicks = 0;
  faults = new Faults();
  #unanswered = new Set();

  static async open(context, server) {
    const tab = new Tab();
    tab.server = server;
    tab.page = await context.newPage();
    tab.page.setDefaultNavigationTimeout(PATIENCE_MS);
    tab.devtools = await tab.page.createCDPSession();
    await tab.faults.watch(tab.page, new URL(server.url).origin);
    tab.#countRequests();
    return tab;
  }

  async go(address) {
    await this.page.goto(new URL(address, this.server.url).href, { waitUntil: 'domcontentloaded' });
  }

  /** Signs in as a member without the form, which has tests of its own, and opens an address. */
  async signedIn(name, address = '/') {
    const { token } = await this.server.as(name);
    await this.go('/sign-in');
    const { status, text } = await this.call('POST', '/auth/sign-in', { token });
    if (status !== 204) throw new Error(`sign-in as ${name}: ${status} ${text}`);
    await this.go(address);
    return this;
  }

  /** A request that a script of the page makes: with its cookie, and nothing else. */
  call = (method, path, body) => this.page.evaluate(async (method, path, body) => {
    const answer = await fetch(path, {
      method,
      headers: body ? { 'Content-Type': 'application/json' } : {},
      body: body && JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  }, method, path, body);

  /** The first element with this role and name (a text: all of it; a pattern: a match), as soon as there is one. */
  find(role, name, { within } = {}) {
    return this.until(`there is a ${role} ${name ?? ''}`, async () => (await this.all(role, name, { within }))[0]);
  }

  /** Waits until there is no such element. */
  gone(role, name, { within } = {}) {
    return this.until(`there is no ${role} ${name ?? ''}`, async () => (await this.all(role, name, { within })).length === 0);
  }

  /** All such elements now. */
  async all(role, name, { within } = {}) {
    const root = within?.objectId ?? (await this.devtools.send('Runtime.evaluate', { expression: 'document' })).result.objectId;
    const { nodes } = await this.devtools.send('Accessibility.queryAXTree', { objectId: root, role });
    const matching = nodes.filter((node) => !node.ignored && node.backendDOMNodeId && nameFits(node.name?.value ?? '', name));
    return Promise.all(matching.map(async (node) => {
      const { object } = await this.devtools.send('DOM.resolveNode', { backendNodeId: node.backendDOMNodeId });
      return new Element(this, node, object.objectId);
    }));
  }

  /** Clicks the first such element that can be clicked; a page may draw it anew at any moment. */
  async click(role, name, { within } = {}) {
    const { x, y } = await this.until(`there is a ${role} ${name} that can be clicked`, async () => {
      const [found] = await this.all(role, name, { within });
      return found?.spot();
    });
    await this.page.mouse.click(x, y);
    this.clicks += 1;
  }

  fill = async (name, text, where) => (await this.find('textbox', name, where)).fill(text);
  press = (...keys) => keys.reduce((before, key) => before.then(() => this.page.keyboard.press(key)), Promise.resolve());

  /** The text that can be seen. */
  text = async () => (await this.page.evaluate(() => document.body?.innerText)) ?? '';

  /** Waits until the page, or an element of it, shows this. */
  sees(pattern, { within } = {}) {
    return this.until(`the page shows ${pattern}`, async () => {
      const text = within ? await within.text() : await this.text();
      return text.match(pattern) ?? undefined;
    });
  }

  /** Waits until the address is this one. */
  at(path) {
    return this.until(`the address is ${path}`, () => {
      const { pathname, search } = new URL(this.page.url());
      return typeof path === 'string' ? pathname === path : path.test(pathname + search);
    });
  }

  /** Waits for the main heading, which is where a new page begins. */
  heading = (name) => this.until(`the main heading is ${name}`, async () => {
    const first = (await this.all('heading', name)).map((one) => one.run(function () { return this.tagName === 'H1'; }));
    return (await Promise.all(first)).includes(true);
  });

  /** Waits until the page has a heading and everything that it asked for; streams have no end and do not count. */
  async settled() {
    await this.until('the page has settled', async () => {
      const drawn = await this.page.evaluate(() => Boolean(document.querySelector('h1')) && !document.querySelector('[aria-busy="true"]'));
      return drawn && this.#unanswered.size === 0;
    });
    await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  #countRequests() {
    const isStream = (request) => request.resourceType() === 'eventsource' || /\/stream|follow=true/.test(request.url());
    this.page.on('request', (request) => !isStream(request) && this.#unanswered.add(request));
    for (const end of ['requestfinished', 'requestfailed']) this.page.on(end, (request) => this.#unanswered.delete(request));
    this.page.on('framenavigated', () => this.#unanswered.clear());
  }

  /** What has the focus: its role and its name. */
  async focused() {
    const { result } = await this.devtools.send('Runtime.evaluate', { expression: 'document.activeElement' });
    if (!result.objectId) return undefined;
    const { nodes } = await this.devtools.send('Accessibility.getPartialAXTree', { objectId: result.objectId, fetchRelatives: false });
    return new Element(this, nodes[0], result.objectId);
  }

  /** Presses Tab until an element like this has the focus. Fails after one round through the page. */
  async tabTo(role, name, { limit = 120 } = {}) {
    const passed = [];
    for (let presses = 0; presses < limit; presses += 1) {
      const focused = await this.focused();
      if (focused?.role === role && nameFits(focused.name, name)) return focused;
      passed.push(`${focused?.role} "${focused?.name}"`);
      await this.press('Tab');
    }
    throw new Error(`Tab does not reach ${role} ${name}; it passes: ${passed.join(', ')}`);
  }

  /** Looks again after each change of the page until `look` gives something. */
  async until(what, look) {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = await Promise.resolve().then(look).catch(unlessGone);
      if (found !== undefined && found !== false) return found;
      if (performance.now() > deadline) throw new Error(await this.#complaint(what));
      await this.#change();
    }
  }

  async #change() {
    const expression = `new Promise((done) => {
      new MutationObserver(done).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      setTimeout(done, ${LOOK_AGAIN_MS});
    }).then(() => undefined)`;
    await this.devtools.send('Runtime.evaluate', { expression, awaitPromise: true }).catch(unlessGone);
  }

  async #complaint(what) {
    mkdirSync(PICTURES, { recursive: true });
    const picture = `${PICTURES}/failed-${process.pid}-${Date.now()}.png`;
    await this.page.screenshot({ path: picture }).catch(() => undefined);
    // Without the frame around the page, which is always the same.
    const text = await this.page.evaluate(() => (document.querySelector('dialog[open]') ?? document.querySelector('main') ?? document.body).innerText)
      .catch((error) => String(error));
    return `in vain: ${what}\n${this.page.url()} (${picture}) shows:\n${text}`;
  }

  async close() {
    await this.page.close();
    this.faults.check();
  }
}

function nameFits(name, wanted) {
  if (wanted === undefined) return true;
  return typeof wanted === 'string' ? name.trim() === wanted : wanted.test(name);
}

/** The document or the element went away while it was looked at: look again. Anything else is a fault of the test. */
function unlessGone(error) {
  const gone = /context was destroyed|Cannot find context|Could not find (node|object)|Inspected target navigated|No node|detached|does not belong to the document|Promise was collected|Argument should belong/i;
  if (!gone.test(String(error))) throw error;
  return undefined;
}
