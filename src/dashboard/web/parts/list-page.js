// A page that is a list: heading, filters that are part of the address, a table, more of it on demand, kept up to date.

import { h, replace } from '../lib/dom.js';
import { get, inWords } from '../lib/api.js';
import { setQuery } from '../lib/router.js';
import { live } from '../lib/live.js';
import { button } from './button.js';
import { field } from './form.js';
import { notice } from './notice.js';
import { pageHead, table } from './table.js';

const PAGE = 50;
// The API's longest page. What is shown beyond it is read again only on demand.
const PAGE_MOST = 100;
// Typing asks once, not at each key.
const TYPING_MILLISECONDS = 250;
// A burst of events reads the list once.
const BURST_MILLISECONDS = 400;

// listPage({main, signal, query, head, below, address, ask, filters, columns, caption, href, key, empty, follow}):
// `filters` are fields whose values stand in the address, and `ask(values)` makes the API's query of them; `empty` is shown
// when there is nothing and no filter; `follow` are the types of events after which the list is read again.
export async function listPage(page) {
  const { filters = [], ask = (values) => values, key } = page;
  const values = valuesOf(filters, page.query);
  const [place, foot, trouble] = [h('div', { class: 'card flush' }), h('div', { class: 'list-foot' }), h('div')];
  let rows = [];
  let newest = 0;

  const read = async (offset, limit) => {
    const mine = ++newest;
    const { data, pagination: { total } } = await get(page.address, { query: { ...ask(values), limit, offset }, signal: page.signal });
    if (mine !== newest) return;
    const [first, rest] = offset > 0 ? [rows, data] : [data, rows.slice(PAGE_MOST)];
    const known = new Set(first.map(key));
    rows = first.concat(rest.filter((row) => !known.has(key(row))));
    replace(trouble);
    const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
    replace(place, rows.length > 0 ? table({ ...page, rows })
      : Object.values(values).some(Boolean) ? h('p', { class: 'quiet none' }, 'Nothing fits these filters.') : page.empty);
    replace(foot, rows.length > 0 ? h('span', { class: 'quiet small' }, total > rows.length ? `${rows.length} of ${total}` : `${total} in all`) : null,
      total > rows.length ? button({ label: 'Show more', onClick: () => read(rows.length, PAGE) }) : null);
    if (focused) [...place.querySelectorAll('a, button, summary')].find((one) => nameOf(one) === focused)?.focus();
  };
  const reload = () => read(0, Math.min(PAGE_MOST, Math.max(PAGE, rows.length)));
  // An open menu is not taken away.
  const refresh = () => (place.querySelector(':popover-open') ? setTimeout(refresh, TYPING_MILLISECONDS) : reload().catch((error) => error.name === 'AbortError' || replace(trouble, notice('bad', inWords(error)))));

  await reload();
  replace(page.main, h('section', { class: 'page' }, pageHead(page.head), page.below, filterRow(filters, values, () => {
    setQuery(values);
    rows = [];
    refresh();
  }), trouble, place, foot));
  return { reload, leave: page.follow ? refetch({ types: page.follow }, refresh) : () => {} };
}

const nameOf = (element) => element.ariaLabel ?? element.textContent;
export const valuesOf = (filters, query) => Object.fromEntries(filters.map(({ name }) => [name, query?.[name] ?? '']));

// Calls `read` soon after an event that fits, once for a burst of them. The answer stops it.
export function refetch(filter, read, milliseconds = BURST_MILLISECONDS) {
  let timer = null;
  const stop = live.follow(filter, () => {
    timer ??= setTimeout(() => {
      timer = null;
      read();
    }, milliseconds);
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}

// Fields of filters, which change `values` and then call `chosen`.
export function filterRow(filters, values, chosen) {
  if (filters.length === 0) return null;
  let timer = null;
  return h('form', { class: 'filters', role: 'search', 'aria-label': 'Filters', on: { submit: (event) => event.preventDefault() } }, filters.map((filter) => {
    const element = field({ ...filter, value: values[filter.name] });
    element.input.addEventListener('input', () => {
      values[filter.name] = String(element.value()).trim();
      clearTimeout(timer);
      timer = setTimeout(chosen, TYPING_MILLISECONDS);
    });
    return element;
  }));
}
