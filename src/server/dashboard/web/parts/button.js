// Buttons that show progress, and beside them the error if it failed.

import { h, replace, setText } from '../lib/dom.js';
import { inWords } from '../lib/api.js';
import { live } from '../lib/live.js';
import { icon } from './icon.js';

// Earlier, a progress indicator would only flicker.
const BUSY_AFTER_MILLISECONDS = 300;

// kind: 'primary', 'danger', 'quiet' or nothing. `onClick` may be async; its errors are shown.
export function button({ label, kind, onClick, busyLabel, icon: name, title, disabled, type = 'button', offline = false }) {
  const text = h('span', null, label);
  const element = h('button', { type, class: `button ${kind ?? ''}`, title, disabled }, name ? icon(name) : null, text);
  const fault = h('span', { class: 'fault', role: 'alert' });
  element.addEventListener('click', async (event) => {
    if (type === 'submit' && !onClick) return;
    event.preventDefault();
    await during(element, text, busyLabel, fault, () => {
      if (!offline && live.state().status === 'lost') throw new Error(NOT_CONNECTED);
      return onClick(event);
    });
  });
  const whole = h('span', { class: 'action' }, element, fault);
  whole.button = element;
  return whole;
}

export const NOT_CONNECTED = 'The connection to the server is lost. Nothing was sent; try again when it is back';

// Runs `act` while the button shows progress. Returns whether it worked.
export async function during(element, text, busyLabel, fault, act) {
  if (element.getAttribute('aria-busy') === 'true') return false;
  const label = text.textContent;
  replace(fault);
  element.setAttribute('aria-busy', 'true');
  // A button that opens a dialog stays as it is: the dialog shows the progress.
  const timer = setTimeout(() => !label.endsWith('…') && setText(text, busyLabel ?? `${label}…`), BUSY_AFTER_MILLISECONDS);
  try {
    await act();
    return true;
  } catch (error) {
    if (error?.name !== 'AbortError') replace(fault, inWords(error));
    return false;
  } finally {
    clearTimeout(timer);
    setText(text, label);
    element.removeAttribute('aria-busy');
  }
}

export function iconButton({ label, icon: name, onClick, kind = 'quiet' }) {
  return h('button', { type: 'button', class: `button square ${kind}`, 'aria-label': label, title: label, on: { click: onClick } }, icon(name));
}
