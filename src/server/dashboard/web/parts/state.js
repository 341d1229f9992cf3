// A state is always shown as an icon, a word and a colour.

import { h, setClass, setText } from '../lib/dom.js';
import { icon } from './icon.js';

// status → [tone, icon, word]. Tones are classes of styles/parts.css.
const STATES = {
  unlocked: ['good', 'free', 'free'],
  locked: ['warm', 'lock', 'locked'],
  mine: ['accent', 'lock', 'yours'],
  resetting: ['violet', 'again', 'resetting'],
  disabled: ['quiet', 'ban', 'disabled'],
  queued: ['quiet', 'clock', 'queued'],
  active: ['warm', 'lock', 'active'],
  released: ['quiet', 'check', 'released'],
  overridden: ['bad', 'swap', 'overridden'],
  expired: ['quiet', 'clock', 'expired'],
  pending: ['quiet', 'free', 'pending'],
  running: ['accent', 'spin', 'running'],
  awaiting_approval: ['warm', 'hand', 'awaiting approval'],
  succeeded: ['good', 'check', 'succeeded'],
  failed: ['bad', 'cross', 'failed'],
  cancelling: ['warm', 'spin', 'cancelling'],
  cancelled: ['quiet', 'ban', 'cancelled'],
  skipped: ['quiet', 'dash', 'skipped'],
  approved: ['good', 'check', 'approved'],
  rejected: ['bad', 'cross', 'rejected'],
  stopped: ['bad', 'stop', 'stopped'],
  completed: ['good', 'check', 'completed'],
  ready: ['good', 'check', 'ready'],
  syncing: ['accent', 'spin', 'syncing'],
  delivered: ['good', 'check', 'delivered'],
  enabled: ['good', 'check', 'enabled'],
  alive: ['good', 'check', 'alive'],
  silent: ['bad', 'cross', 'silent'],
};

export function look(kind) {
  const [tone, name, word] = STATES[kind] ?? ['quiet', 'dot', String(kind).replaceAll('_', ' ')];
  return { tone, name, word };
}

export function state(kind, text) {
  const element = h('span', null, icon('dot'), h('span', null));
  setState(element, kind, text);
  return element;
}

// For an element that is reused.
export function setState(element, kind, text) {
  const { tone, name, word } = look(kind);
  if (element.dataset.kind !== kind) {
    element.dataset.kind = kind;
    element.firstChild.replaceWith(icon(name));
    setClass(element, `state ${tone}`);
  }
  setText(element.lastChild, text ?? word);
}
