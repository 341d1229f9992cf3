// The keyboard. A page registers its keys while it is shown; a few work everywhere.

import { h } from '../lib/dom.js';
import { me } from '../lib/session.js';
import { go, href } from '../lib/router.js';
import { dialog } from './dialog.js';

const everywhere = [
  { key: 'Ctrl-K', text: 'search everything' },
  { key: '?', text: 'this help', run: openHelp },
  { key: 'g', text: 'go to the overview', run: () => go(href(me().organization.id)) },
];
let ofPage = [];

// keys: [{key: 'j', text: 'next row', run: (event) => …}]. Returns a function that unregisters them.
export function pageKeys(keys) {
  ofPage = keys;
  return () => {
    if (ofPage === keys) ofPage = [];
  };
}

export function listenForKeys() {
  document.addEventListener('keydown', (event) => {
    if (!me()) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector('dialog[open], [popover]:popover-open')) return;
    const found = [...ofPage, ...everywhere].find(({ key, run }) => run && key === event.key);
    // A focused button or link handles Enter itself.
    if (!found || (event.key === 'Enter' && event.target.closest?.('a, button'))) return;
    event.preventDefault();
    found.run(event);
  });
}

function isTyping(element) {
  return element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);
}

// Its code is loaded on first use.
export async function openPalette() {
  (await import('./palette.js')).openPalette();
}

export function openHelp() {
  const rows = [...ofPage, ...everywhere].map(({ key, text }) => [h('kbd', null, key), h('span', null, text)]);
  dialog({ title: 'Keyboard', body: h('div', { class: 'keys' }, rows) });
}
