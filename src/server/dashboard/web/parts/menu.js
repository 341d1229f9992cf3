// A menu attached to a button. The browser closes it on Escape or a click elsewhere.

import { h, replace } from '../lib/dom.js';
import { icon } from './icon.js';

let count = 0;

// items: () => [{label, icon, onClick | href, danger}], or null for a separator; called at each opening.
export function menu({ label, content, items, class: name = 'button square quiet' }) {
  const id = `menu-${++count}`;
  const list = h('div', { class: 'menu', id, popover: 'auto', role: 'menu', 'aria-label': label });
  const opener = h('button', { type: 'button', class: name, 'aria-label': label, title: content ? null : label, 'aria-haspopup': 'menu', 'aria-expanded': 'false' }, content ?? icon('more'));
  opener.addEventListener('click', (event) => {
    event.stopPropagation();
    openMenu(list, opener, items());
  });
  list.addEventListener('toggle', (event) => opener.setAttribute('aria-expanded', String(event.newState === 'open')));
  return h('span', { class: 'menu-place' }, opener, list);
}

export function openMenu(list, anchor, items) {
  replace(list, items.map((item) => {
    if (item === null) return h('hr', null);
    const props = { role: 'menuitem', class: item.danger ? 'danger' : '' };
    const inside = [item.icon ? icon(item.icon) : null, item.label];
    const act = () => { list.hidePopover(); item.onClick?.(); };
    return item.href ? h('a', { ...props, href: item.href, on: { click: () => list.hidePopover() } }, inside)
      : h('button', { ...props, type: 'button', on: { click: act } }, inside);
  }));
  list.onkeydown = moveWithArrows;
  list.showPopover();
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = list;
  list.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  list.style.top = `${at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4}px`;
  list.querySelector('a, button')?.focus();
}

function moveWithArrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...event.currentTarget.querySelectorAll('a, button')];
  all[(all.indexOf(document.activeElement) + step + all.length) % all.length]?.focus();
}
