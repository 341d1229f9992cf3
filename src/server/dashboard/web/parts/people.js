// People: initials in a colour that depends on the name.

import { h, setText } from '../lib/dom.js';

const HUES = 12;

export function avatar(name) {
  const element = h('span', { class: 'avatar', 'aria-hidden': 'true' });
  setAvatar(element, name);
  return element;
}

export function setAvatar(element, name) {
  const letters = name.split(/[\s._-]+/).filter(Boolean).slice(0, 2).map((word) => word[0]).join('') || '?';
  setText(element, letters.toUpperCase());
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 9973;
  element.style.setProperty('--hue', (sum % HUES) * (360 / HUES));
}

// user: {userId, name}; `note` adds a word, such as "you".
export function person(user, note) {
  if (!user) return h('span', { class: 'quiet' }, 'the system');
  return h('span', { class: 'person' }, avatar(user.name), h('span', null, user.name), note ? h('span', { class: 'quiet' }, note) : null);
}
