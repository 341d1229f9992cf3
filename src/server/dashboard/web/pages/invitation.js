// An invitation: the link contains a one-time secret, which is only ever sent to the server's invitation endpoint.

import { root } from '../lib/api.js';
import { h, replace } from '../lib/dom.js';
import { load } from '../lib/session.js';
import { go } from '../lib/router.js';
import { exactly } from '../lib/time.js';
import { field, form } from '../parts/form.js';
import { mark } from '../parts/icon.js';

const PASSWORD_LEAST = 10;

export async function show({ signal, main, title }) {
  title('Invitation');
  const text = location.hash.slice(1);
  const address = `/auth/invitations/${encodeURIComponent(text)}`;
  const found = await root.get(address, { signal }).catch((error) => {
    if (error.status === 404) return null;
    throw error;
  });
  replace(main, h('div', { class: 'gate' }, h('div', null, h('div', { class: 'brand' }, mark(32), 'Lockkeeper'),
    h('section', { class: 'card' }, found && text ? welcome(found.data, address) : gone()))));
}

function welcome({ organization, name, expiresAt }, address) {
  const password = field({
    label: 'New password', name: 'password', type: 'password', required: true, autocomplete: 'new-password', autofocus: true,
    hint: `At least ${PASSWORD_LEAST} characters. A sentence is easier to remember than a puzzle.`,
  });
  // Password managers save the name together with the password.
  const user = h('input', { type: 'text', name: 'username', autocomplete: 'username', value: name, hidden: true, 'aria-hidden': 'true' });
  const body = form({
    offline: true,
    fields: [user, password],
    submit: { label: 'Set password', busyLabel: 'Setting the password…' },
    onSubmit: async (values) => {
      await root.post(address, values);
      await load();
      window.dispatchEvent(new CustomEvent('signed-in'));
      go('/', { replace: true });
    },
  });
  return [h('h1', null, `Welcome to ${organization.name}`), h('p', null, 'You are ', h('strong', null, name), '. Choose the password that you will sign in with.'), body,
    h('p', { class: 'quiet small' }, `This link works once, until ${exactly(expiresAt)}.`)];
}

function gone() {
  return [h('h1', null, 'This invitation no longer works'),
    h('p', null, 'It was used, has expired, or was replaced by a newer one. Ask an admin of your organization for a new link.'),
    h('a', { class: 'button', href: '/sign-in' }, 'Go to sign-in')];
}
