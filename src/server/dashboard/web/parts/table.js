// Tables, which become lists of cards on phones, and tabs.

import { h } from '../lib/dom.js';

// columns: [[label, (row) => node or text, class]], or a field's name; a column without a label contains actions.
// `href(row)` turns a row's first cell into a link.
export function table({ columns: given, rows, empty, caption, href }) {
  if (rows.length === 0 && empty) return empty;
  const columns = given.map((one) => (Array.isArray(one) ? { label: one[0], cell: one[1], class: one[2] } : one));
  return h('div', { class: 'table-wrap' }, h('table', { class: 'table' },
    caption ? h('caption', { class: 'visually-hidden' }, caption) : null,
    h('thead', null, h('tr', null, columns.map(({ label, class: name }) =>
      h('th', { scope: 'col', class: name }, label || h('span', { class: 'visually-hidden' }, 'Actions'))))),
    h('tbody', null, rows.map((row) => h('tr', null, columns.map(({ label, cell, class: name }, place) => {
      const made = typeof cell === 'string' ? row[cell] : cell(row);
      const content = Array.isArray(made) ? h('span', null, made) : made;
      return h('td', { class: name, data: { label: label ?? '' } },
        place === 0 && href ? h('a', { href: href(row), class: 'strong' }, content) : content);
    }))))));
}

// items: [{label, href, selected, count}]; each tab has an address.
export function tabs({ label, items }) {
  return h('nav', { class: 'tabs', 'aria-label': label }, items.map(({ label: text, href, selected, count }) =>
    h('a', { href, 'aria-current': selected ? 'page' : null }, text, count ? h('span', { class: 'count' }, count) : null)));
}

// A page's head: h1, a sentence, actions on the right.
export function pageHead({ title, text, actions, above }) {
  return h('header', { class: 'page-head' },
    h('div', null, above ?? null, h('h1', null, title), text ? h('p', { class: 'quiet' }, text) : null),
    actions ? h('div', { class: 'row' }, actions) : null);
}

// Names and values: [['Label', value]]; empty values are omitted.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}
