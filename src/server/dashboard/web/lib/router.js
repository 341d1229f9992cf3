// Addresses and pages. A page is a module with `show`, which returns a function to call when the page is left.

import { h, replace } from './dom.js';
import { ApiError, inWords } from './api.js';
import { live } from './live.js';

// Earlier, a progress indicator would only flicker.
const PROGRESS_AFTER_MILLISECONDS = 300;

const routes = [];
let main = null;
let current = { controller: new AbortController(), leave: null, path: null };
let described = () => {};
let permit = () => {};

// route('/:orgId/:pipelineId', () => import('./pages/board.js'), 'board'): the page and its style sheets.
export function route(pattern, module, ...styles) {
  const load = () => Promise.all([module(), ...styles.map(style)]).then(([page]) => page);
  const names = [];
  const source = pattern.replace(/:([A-Za-z]+)/g, (_, name) => (names.push(name), '([^/]+)'));
  routes.push({ match: new RegExp(`^${source}/?$`), names, load });
}

// href('acme', 'web') → '/acme/web'
export function href(...segments) {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('');
}

export function go(address, { replace: instead = false } = {}) {
  rememberScroll();
  history[instead ? 'replaceState' : 'pushState']({}, '', address);
  return main ? draw() : undefined;
}

// Changes the query of the current address without leaving the page, so that a filter can be shared.
export function setQuery(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const text = new URLSearchParams(pairs).toString();
  history.replaceState(history.state, '', location.pathname + (text ? `?${text}` : ''));
  current.path = location.pathname + location.search;
}

// Ends the current page's requests and timers.
export function leave() {
  current.controller.abort();
  current.leave?.();
  current.leave = null;
}

export function reload() {
  return draw();
}

const styled = new Map();

// Resolves when the style sheet is loaded, since a page must not be shown without it.
function style(name) {
  if (!styled.has(name)) {
    styled.set(name, new Promise((resolve) => {
      document.head.append(h('link', { rel: 'stylesheet', href: new URL(`../styles/${name}.css`, import.meta.url).href, on: { load: resolve, error: resolve } }));
    }));
  }
  return styled.get(name);
}

// Starts loading the current page's code while the user is being identified.
export function preload() {
  find(location.pathname)?.load().catch(() => {});
}

// Calls `changed` with {path, params} of each new page; `permitted` throws if this user has no such page.
export function start(element, changed, permitted) {
  main = element;
  permit = permitted;
  described = changed;
  history.scrollRestoration = 'manual';
  // Changes of the fragment alone are left to the browser.
  addEventListener('popstate', () => { if (location.pathname + location.search !== current.path) draw(); });
  document.addEventListener('click', follow);
  return draw();
}

// Links within the dashboard change the page without a reload.
function follow(event) {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (link.target || link.hasAttribute('download') || url.origin !== location.origin) return;
  if (!routes.some(({ match }) => match.test(url.pathname)) || /^\/(docs|api|problems|auth)(\/|$)/.test(url.pathname)) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
  event.preventDefault();
  go(url.pathname + url.search + url.hash);
}

async function draw() {
  leave();
  const controller = new AbortController();
  const mine = { controller, leave: null, path: location.pathname + location.search };
  current = mine;
  const found = find(location.pathname);
  described({ path: location.pathname, params: found?.params ?? {} });
  const progress = setTimeout(() => document.body.classList.add('loading'), PROGRESS_AFTER_MILLISECONDS);
  try {
    if (!found) throw new ApiError(404, { code: 'page_not_found', detail: 'there is no page at this address' });
    permit(found.params);
    const [module] = await Promise.all([found.load(), live.opened()]);
    if (controller.signal.aborted) return;
    const query = Object.fromEntries(new URLSearchParams(location.search));
    const left = await module.show({ params: found.params, query, signal: controller.signal, main, title });
    if (controller.signal.aborted) return void left?.();
    mine.leave = left ?? null;
    arrive();
  } catch (error) {
    if (controller.signal.aborted || error.status === 401) return;
    if (error instanceof TypeError && await isOutdated()) return void location.reload();
    title(error.status === 404 ? 'Not found' : 'Something went wrong');
    replace(main, failure(error));
    arrive();
  } finally {
    clearTimeout(progress);
    if (current === mine) document.body.classList.remove('loading');
  }
}

// Whether the server has been upgraded and now has other files than this page.
async function isOutdated() {
  try {
    const page = await (await fetch('/', { headers: { Accept: 'text/html' }, cache: 'no-store' })).text();
    return page.includes('/assets/') && !page.includes(new URL('..', import.meta.url).pathname);
  } catch {
    return false;
  }
}

function find(pathname) {
  for (const { match, names, load } of routes) {
    const found = match.exec(pathname);
    if (!found) continue;
    try {
      return { load, params: Object.fromEntries(names.map((name, place) => [name, decodeURIComponent(found[place + 1])])) };
    } catch {
      return null; // An invalid % sequence matches nothing.
    }
  }
  return null;
}

function title(text) {
  document.title = text ? `${text} · Lockkeeper` : 'Lockkeeper';
}

// Screen readers begin at the heading. The scroll position is restored when the user comes back.
function arrive() {
  main.scrollTop = history.state?.scroll ?? 0;
  const held = main.contains(document.activeElement) && document.activeElement.hasAttribute('autofocus');
  const heading = main.querySelector('h1');
  if (held || !heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

function rememberScroll() {
  if (main) history.replaceState({ ...history.state, scroll: main.scrollTop }, '');
}

function failure(error) {
  const known = error.status === 404;
  return h('section', { class: 'page narrow' },
    h('h1', null, known ? 'Not found' : 'This did not work'),
    h('p', { role: 'alert' }, inWords(error)),
    error.problem?.requestId ? h('p', { class: 'quiet small' }, `Request ${error.problem.requestId}`) : null,
    h('p', { class: 'row' },
      h('button', { class: 'button', on: { click: () => draw() } }, 'Try again'),
      h('a', { class: 'button', href: '/' }, 'Go to the overview')));
}
