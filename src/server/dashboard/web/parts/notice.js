// Messages in the page, short confirmations, and empty states.

import { h } from '../lib/dom.js';
import { icon } from './icon.js';

const TOAST_MILLISECONDS = 4000;
const ICONS = { good: 'check', warm: 'alert', bad: 'alert', accent: 'help' };

// tone: 'good', 'warm', 'bad' or 'accent'
export function notice(tone, ...children) {
  return h('div', { class: `notice ${tone}`, role: tone === 'bad' ? 'alert' : 'status' }, icon(ICONS[tone] ?? 'help'), h('div', null, children));
}

// Confirms a success. Errors must also appear elsewhere.
export function toast(text) {
  const place = document.getElementById('toasts');
  const element = h('div', { class: 'toast' }, icon('check'), text);
  place.append(element);
  setTimeout(() => element.remove(), TOAST_MILLISECONDS);
}

// For screen readers only.
export function announce(text) {
  document.getElementById('announcer').textContent = text;
}

// command: a line to copy; action: an element, such as a button.
export function empty({ title, text, command, action, icon: name = 'free' }) {
  return h('div', { class: 'empty' }, icon(name, 32), h('h2', null, title), text ? h('p', null, text) : null,
    command ? copyable(command) : null, action ?? null);
}

// Text with a copy button; `secret` texts are those shown only once.
export function copyable(text, { label = 'Copy' } = {}) {
  const code = h('code', { tabindex: 0 }, text);
  const copy = h('button', { type: 'button', class: 'button small' }, icon('copy'), h('span', null, label));
  copy.addEventListener('click', async () => {
    const said = copy.lastChild;
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      said.textContent = 'Press Ctrl-C';
    }
    setTimeout(() => { said.textContent = label; }, 2000);
  });
  return h('div', { class: 'copyable' }, code, copy);
}
