// The user's account: role, password, sign-ins, and the appearance of the dashboard.

import { ago, asking, at, atEnd, avatar, button, field, form, get, h, inWords, me, notice, pageHead, path, quiet, replace, root, row, table, toast } from '../parts/all.js';

const MAY = {
  viewer: 'You can see everything and change nothing.',
  developer: 'You can claim environments, deploy to them, and release what is yours.',
  maintainer: 'You can also approve, release any session, and manage pipelines, environments, secrets and registries.',
  admin: 'You can do everything, and manage members, tokens and webhooks.',
};

export async function show({ signal, main, title }) {
  title('My account');
  const { user, organization, role } = me();
  const { hasPassword } = (await get(path('members', user.userId), { signal })).data;
  const signIns = h('div');
  const read = () => readSignIns(signIns, signal);
  const picture = avatar(user.name);
  picture.classList.add('large');
  const card = (heading, content, action, name = 'card') => h('section', { class: name }, h('header', null, h('h2', null, heading), action), content);
  replace(main, h('section', { class: 'page' }, pageHead({ title: 'My account' }),
    h('div', { class: 'card who' }, picture, h('div', null, h('h2', null, user.name), quiet([user.email, `${role} in ${organization.name}`].filter(Boolean).join(' · ')), h('p', { class: 'small' }, MAY[role]))),
    card('Password', hasPassword ? passwordForm(read) : quiet('You have no password. Ask an admin for an invitation to choose one.')),
    card('Where you are signed in', signIns, everywhere(), 'card flush'),
    card('Appearance', appearance()),
    card('API Tokens', h('p', null, 'Scripts and CI jobs use tokens instead of a password. ', h('a', { href: at('settings', 'tokens') }, 'Manage your tokens')))));
  await read();
}

function passwordForm(changed) {
  const password = (label, name, more) => field({ label, name, type: 'password', ...more });
  const fields = [
    password('Current password', 'currentPassword', { required: true, autocomplete: 'current-password' }),
    password('New password', 'newPassword', { required: true, autocomplete: 'new-password', hint: '10 to 200 characters. A few unusual words are good.' }),
    password('New password again', 'again', { required: true, autocomplete: 'new-password' }),
  ];
  return form({
    class: 'form half', fields, submit: { label: 'Change password' },
    onSubmit: async ({ again, ...values }) => {
      if (again !== values.newPassword) throw Object.assign(new Error('no repetition'), { errors: [{ field: 'again', message: 'is not the same as the new password' }] });
      await root.post('/auth/password', values);
      for (const one of fields) one.input.value = '';
      toast('Your password is changed. Your other sign-ins have ended, and the tokens that you made while signed in.');
      return changed();
    },
  });
}

async function readSignIns(place, signal) {
  try {
    const { data } = await root.get('/auth/sign-ins', { signal });
    const end = ({ signInId, client }) => button({
      label: 'End', kind: 'danger', title: `End the sign-in of ${client ?? 'that browser'}`,
      onClick: () => root.del(`/auth/sign-ins/${encodeURIComponent(signInId)}`).then(() => readSignIns(place, signal)),
    });
    replace(place, table({
      caption: 'Your sign-ins', rows: data, empty: quiet('You are not signed in with a browser.'),
      columns: [
        ['Browser', ({ client, current }) => row(client || 'unknown', current ? h('span', { class: 'tag' }, 'this one') : null)],
        ['Signed in', ago('createdAt')], ['Last used', ago('lastUsedAt', 'just now')], ['Ends', ago('expiresAt')],
        ['', (one) => (one.current ? null : atEnd(end(one)))],
      ],
    }));
  } catch (error) {
    if (error.name !== 'AbortError') replace(place, notice('bad', inWords(error)));
  }
}

function everywhere() {
  return asking({ label: 'Sign out everywhere', kind: 'danger', icon: 'out' }, () => ({
    title: 'Sign out everywhere?', text: 'Ends your sign-ins in all browsers, this one too, and the tokens that were made in them. Tokens from an admin go on working.', label: 'Sign out everywhere', kind: 'danger',
    send: () => root.post('/auth/sign-out', { everywhere: true }),
  }), (done) => done && window.dispatchEvent(new CustomEvent('signed-out')));
}

// Stored in this browser if allowed; appearance.js applies it before the first paint.
function appearance() {
  const chosen = document.documentElement.dataset;
  const element = field({ label: 'Colours', name: 'appearance', value: chosen.appearance ?? '', options: [['', 'as the system'], 'light', 'dark'] });
  element.classList.add('half');
  element.input.addEventListener('input', () => {
    chosen.appearance = element.value();
    try {
      localStorage.setItem('appearance', element.value());
    } catch {
      // Without storage it lasts until the page is closed.
    }
  });
  return element;
}
