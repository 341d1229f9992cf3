// A list page: heading, filters in the address, a table, more rows on demand, kept up to date.

import { h, replace } from '../lib/dom.js';
import { get, inWords } from '../lib/api.js';
import { setQuery } from '../lib/router.js';
import { live } from '../lib/live.js';
import { button } from './button.js';
import { field } from './form.js';
import { notice } from './notice.js';
import { pageHead, table } from './table.js';

const PAGE = 50;
// The API's maximum page size. Further rows are only reloaded on demand.
const PAGE_MOST = 100;
// One request per pause in typing, not per key.
const TYPING_MILLISECONDS = 250;
// How often to check whether an open menu has closed.
const MENU_MILLISECONDS = 100;
// A burst of events reloads the list once.
const BURST_MILLISECONDS = 400;

// A list page; `context` comes from the router. Properties of `list`:
//   title, text, actions, below   shown above the list
//   address, asked                its path, and the fixed part of its query
//   filters                       fields whose values are in the address, named like the API's parameters
//   id, href, columns             a field (or function) that identifies rows, the link of a row, and its cells
//   empty, follow                 shown if there are no rows, and the events that reload the list
// `actions` and `columns` are functions of a reload function. Returns a function that ends the page.
export async function listPage({ main, signal, query, title }, list) {
  const { filters = [], id, follow, actions = () => null } = list;
  title(list.title);
  const values = valuesOf(filters, query);
  const [place, foot, trouble] = [h('div', { class: 'card flush' }), h('div', { class: 'list-foot' }), h('div')];
  const keyOf = typeof id === 'string' ? (row) => row[id] : id;
  let rows = [];
  let newest = 0;

  const read = async (offset, limit) => {
    const mine = ++newest;
    const { data, pagination: { total } } = await get(list.address, { query: { ...list.asked, ...values, limit, offset }, signal });
    await menusClosed(place);
    if (mine !== newest) return;
    const [first, rest] = offset > 0 ? [rows, data] : [data, rows.slice(PAGE_MOST)];
    const known = new Set(first.map(keyOf));
    rows = first.concat(rest.filter((row) => !known.has(keyOf(row))));
    replace(trouble);
    const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
    replace(place, rows.length > 0 ? table({ caption: list.title, href: list.href, columns: list.columns(reload), rows })
      : Object.values(values).some(Boolean) ? h('p', { class: 'quiet none' }, 'Nothing fits these filters.') : list.empty ?? null);
    replace(foot, rows.length > 0 ? h('span', { class: 'quiet small' }, total > rows.length ? `${rows.length} of ${total}` : `${total} in all`) : null,
      total > rows.length ? button({ label: 'Show more', onClick: () => read(rows.length, PAGE) }) : null);
    if (focused) [...place.querySelectorAll('a, button, summary')].find((one) => nameOf(one) === focused)?.focus();
  };
  const reload = () => read(0, Math.min(PAGE_MOST, Math.max(PAGE, rows.length)));
  const refresh = () => reload().catch((error) => error.name === 'AbortError' || replace(trouble, notice('bad', inWords(error))));

  await reload();
  replace(main, h('section', { class: 'page' }, pageHead({ ...list, actions: actions(reload) }), list.below, filterRow(filters, values, () => {
    rows = [];
    refresh();
  }), trouble, place, foot));
  return follow ? refetch({ types: follow }, refresh) : () => {};
}

// Waits until no menu is open, so that none is replaced.
async function menusClosed(place) {
  while (place.querySelector(':popover-open')) await new Promise((closed) => setTimeout(closed, MENU_MILLISECONDS));
}

const nameOf = (element) => element.ariaLabel ?? element.textContent;
export const valuesOf = (filters, query) => Object.fromEntries(filters.map(({ name }) => [name, query[name] ?? '']));

// Calls `read` soon after a matching event, once per burst. Returns a function that stops it.
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

// Fields of filters. A change updates `values` and the address, then calls `chosen`.
export function filterRow(filters, values, chosen) {
  if (filters.length === 0) return null;
  let timer = null;
  return h('form', { class: 'filters', role: 'search', 'aria-label': 'Filters', on: { submit: (event) => event.preventDefault() } }, filters.map((filter) => {
    const element = field({ ...filter, value: values[filter.name] });
    element.input.addEventListener('input', () => {
      values[filter.name] = element.value().trim();
      clearTimeout(timer);
      timer = setTimeout(() => {
        setQuery(values);
        chosen();
      }, TYPING_MILLISECONDS);
    });
    return element;
  }));
}
