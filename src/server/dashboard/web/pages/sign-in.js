// Signing in: by password, by an API token, or through a provider of the organization.

import { root } from '../lib/api.js';
import { h, replace } from '../lib/dom.js';
import { load } from '../lib/session.js';
import { go } from '../lib/router.js';
import { recall, remember } from '../lib/storage.js';
import { field, form } from '../parts/form.js';
import { notice } from '../parts/notice.js';
import { mark } from '../parts/icon.js';

const ORGANIZATION_KEY = 'organization';

export async function show({ query, signal, main, title }) {
  title('Sign in');
  const back = ownPath(query.return);
  const organization = field({ label: 'Organization', name: 'organization', value: query.organization ?? recall(ORGANIZATION_KEY), required: true, autocomplete: 'organization', autocapitalize: 'none', spellcheck: 'false' });
  const name = field({ label: 'Name', name: 'name', value: query.name, required: true, autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false' });
  const password = field({ label: 'Password', name: 'password', type: 'password', required: true, autocomplete: 'current-password' });
  const token = field({ label: 'Token', name: 'token', type: 'password', required: true, hint: 'An API token, which begins with lk_. You are signed in as its member.' });
  const providers = h('div', { class: 'stack' });
  const place = h('div', { class: 'stack' });

  const byPassword = form({
    offline: true,
    fields: [organization, name, password],
    submit: { label: 'Sign in', busyLabel: 'Signing in…' },
    onSubmit: (values) => signIn(values, back),
  });
  const byToken = form({
    offline: true, fields: [token], submit: { label: 'Sign in', busyLabel: 'Signing in…' }, onSubmit: (values) => signIn({ token: values.token.trim() }, back),
  });
  const showPassword = () => replace(place, byPassword, providers, other('Use a token', showToken));
  const showToken = () => {
    replace(place, byToken, other('Use a password', showPassword));
    token.input.focus();
  };
  showPassword();

  const words = query.error ? await wordsFor(query.error, signal) : null;
  replace(main, h('div', { class: 'gate' }, h('div', null,
    h('div', { class: 'brand' }, mark(32), 'Lockkeeper'),
    h('section', { class: 'card' }, h('h1', null, 'Sign in'),
      words ? notice('bad', words) : null,
      query.ended ? notice('accent', 'Your sign-in has ended. Sign in again to go on where you were.') : null,
      place),
    h('p', { class: 'quiet small row spread' }, h('span', null, 'Lost your password? An admin of your organization can send you a new link.'), h('a', { href: '/docs/' }, 'API explorer')))));

  const first = [organization, name, password].find((one) => one.input.value === '');
  first?.input.setAttribute('autofocus', '');
  first?.input.focus();
  organization.input.addEventListener('change', () => offerProviders(providers, organization.input.value, back, signal));
  if (organization.input.value) offerProviders(providers, organization.input.value, back, signal);
}

// The server's explanation of the error code from a single sign-on.
async function wordsFor(code, signal) {
  const otherwise = 'That did not work. Try again, or ask an admin of your organization.';
  if (!/^[a-z_]{1,64}$/.test(code)) return otherwise;
  try {
    const answer = await fetch(`/problems/${code}`, { signal });
    return answer.ok ? (await answer.text()).split('\n\n')[1] : otherwise;
  } catch {
    return otherwise;
  }
}

function other(label, onClick) {
  return [h('div', { class: 'or' }, 'or'), h('button', { type: 'button', class: 'button wide', on: { click: onClick } }, label)];
}

async function signIn(body, back) {
  await root.post('/auth/sign-in', body);
  const { organization } = await load();
  remember(ORGANIZATION_KEY, organization.id);
  window.dispatchEvent(new CustomEvent('signed-in'));
  go(back ?? '/', { replace: true });
}

async function offerProviders(place, organization, back, signal) {
  try {
    const { data } = await root.get('/auth/methods', { query: { organization }, signal });
    replace(place, data.providers.length > 0 ? h('div', { class: 'or' }, 'or') : null, data.providers.map(({ id, name }) => {
      const query = new URLSearchParams({ organization, return: back ?? '/' });
      return h('a', { class: 'button wide', href: `/auth/oidc/${encodeURIComponent(id)}?${query}` }, `Continue with ${name}`);
    }));
  } catch {
    replace(place); // The password form still works without providers, and reports server errors.
  }
}

// Only addresses of this dashboard: a link must not lead elsewhere after a sign-in.
export function ownPath(text) {
  return text && /^\/(?![/\\])[^\s\\]*$/.test(text) ? text : null;
}
