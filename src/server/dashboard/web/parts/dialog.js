// Native dialogs: the browser keeps the focus inside, and Escape closes them. They are never nested.

import { inWords } from '../lib/api.js';
import { h } from '../lib/dom.js';
import { button, iconButton } from './button.js';

let count = 0;

// actions: [{label, kind, busyLabel, onClick}]. The dialog closes after a successful action, unless it returned false.
export function dialog({ title, body, actions = [], onClose, wide }) {
  const id = `dialog-${++count}`;
  const close = () => element.close();
  const buttons = actions.map((action) => button({
    ...action,
    onClick: async (event) => {
      if ((await action.onClick?.(event)) !== false) close();
    },
  }));
  const element = h('dialog', { class: wide ? 'dialog wide' : 'dialog', 'aria-labelledby': id },
    h('header', null, h('h2', { id }, title), iconButton({ label: 'Close', icon: 'cross', onClick: close })),
    h('div', { class: 'dialog-body' }, body),
    buttons.length > 0 ? h('footer', { class: 'row' }, buttons) : null);
  element.addEventListener('close', () => {
    element.remove();
    onClose?.();
  });
  // A click outside closes it, unless it began inside, as when selecting text.
  let pressed = null;
  element.addEventListener('pointerdown', (event) => { pressed = event.target; });
  element.addEventListener('click', (event) => {
    if (event.target === element && pressed === element) close();
  });
  document.body.append(element);
  element.showModal();
  element.querySelector('[autofocus], .dialog-body input, .dialog-body select, .dialog-body textarea')?.focus();
  return { element, close };
}

// Asks before something irreversible. Resolves with whether it was done.
export function confirm({ title, body, action, kind = 'danger', busyLabel, onConfirm }) {
  return new Promise((resolve) => {
    let done = false;
    const shown = dialog({
      title,
      body,
      onClose: () => resolve(done),
      actions: [
        { label: action, kind, busyLabel, onClick: async () => { await onConfirm?.(); done = true; } },
        { label: 'Cancel', kind: 'quiet', offline: true, onClick: () => {} },
      ],
    });
    return shown;
  });
}

// For menus and keys, which have no place for an error beside them.
export async function attempt(act) {
  try {
    await act();
  } catch (error) {
    dialog({ title: 'This did not work', body: h('p', { role: 'alert' }, inWords(error)), actions: [{ label: 'Close', offline: true }] });
  }
}
