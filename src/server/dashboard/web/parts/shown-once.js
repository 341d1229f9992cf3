// A text that the server shows only once: a token, a secret, an invitation.

import { h } from '../lib/dom.js';
import { dialog } from './dialog.js';
import { icon } from './icon.js';

export function shownOnce({ title, value, text, after }) {
  const input = h('input', { class: 'mono', type: 'text', readonly: true, value, autofocus: true, spellcheck: 'false', 'aria-label': title });
  const said = h('span', null, 'Copy');
  const copy = () => {
    input.select();
    navigator.clipboard.writeText(value).then(() => { said.textContent = 'Copied'; }, () => { said.textContent = 'Press Ctrl-C'; });
  };
  dialog({
    title, wide: true, actions: [{ label: 'Done', offline: true }],
    body: [h('p', null, text), h('div', { class: 'once' }, input, h('button', { type: 'button', class: 'button primary', on: { click: copy } }, icon('copy'), said)), after],
  });
  input.select();
}
