// Members of the organization: everyone sees them, admins change them.

import { ago, ask, asking, atEnd, button, clock, del, isMe, listPage, may, menu, orDash, patch, path, person, post, shownOnce, state } from '../parts/all.js';

const ROLES = [
  ['viewer', 'viewer: reads'],
  ['developer', 'developer: also claims, deploys, releases own sessions'],
  ['maintainer', 'maintainer: also approves, releases any session, manages pipelines and secrets'],
  ['admin', 'admin: also manages members, tokens and webhooks'],
];
const EMAIL = { label: 'E-mail', name: 'email', type: 'email', placeholder: 'ana@example.com' };

export function show(context) {
  const manages = may('manage-members');
  return listPage(context, {
    title: 'Members', address: '/members', id: 'userId',
    actions: (reload) => (manages ? asking({ label: 'Add member', icon: 'plus', kind: 'primary' }, addition, async (made) => {
      if (made?.wanted) await invite(made.data);
      await reload();
    }) : null),
    filters: [{ label: 'Role', name: 'role', options: [['', 'All'], ...ROLES.map(([role]) => role)] }],
    columns: (reload) => [
      ['Name', (member) => person(member, isMe(member) ? 'you' : '')], ['E-mail', orDash('email')], ['Role', 'role'],
      ['Status', ({ disabled, hasPassword }) => (disabled ? state('disabled') : hasPassword ? state('enabled', 'has a password') : state('pending', 'no password'))],
      ['Last sign-in', ago('lastSignInAt', 'never')], ['Tokens', 'tokenCount', 'number'],
      ...(manages ? [['', (member) => atEnd(actions(member, reload))]] : []),
    ],
    follow: ['member.*', 'token.*'],
  });
}

function addition() {
  return {
    title: 'Add a member', label: 'Add member', done: ({ data }) => `${data.name} is a member`,
    fields: [
      { label: 'Name', name: 'name', required: true, placeholder: 'ana', hint: 'For signing in, and shown beside what they hold. Letters, digits and . _ -', autocapitalize: 'none', spellcheck: 'false' },
      EMAIL,
      { label: 'Role', name: 'role', value: 'developer', options: ROLES },
      { label: 'Make an invitation link', name: 'wanted', type: 'checkbox', value: true, hint: 'With it they choose a password themselves.' },
    ],
    send: async ({ wanted, ...values }) => ({ ...(await post('/members', values)), wanted }),
  };
}

// For a first or a new password; the old one works until the link is used.
async function invite({ userId, name }) {
  const { data } = await post(path('members', userId, 'invitation'));
  shownOnce({
    title: 'Invitation link', value: data.url,
    text: `Give it to ${name}, and only to them: whoever opens it first chooses the password. It works once, until ${clock(data.expiresAt)}, and is not shown again.`,
  });
}

function actions(member, reload) {
  const { name, role, email, disabled, hasPassword, tokenCount } = member;
  const address = path('members', member.userId);
  const item = (label, icon, question, then = reload) => ({ label, icon, danger: icon === 'cross', onClick: () => ask(question, then) });
  const change = item('Change…', 'list', {
    title: `Change ${name}`, label: 'Save', done: `${name} is changed`,
    fields: [{ label: 'Role', name: 'role', value: role, options: ROLES, hint: 'Acts on their next request.' }, { ...EMAIL, value: email }],
    send: (values) => patch(address, { role: values.role, ...(values.email === (email ?? undefined) ? {} : { email: values.email ?? null }) }),
  });
  const enable = item('Enable…', 'check', { title: `Enable ${name}?`, text: 'Their tokens work again, and they can sign in.', label: `Enable ${name}`, send: () => patch(address, { disabled: false }), done: `${name} is enabled` });
  const disable = item('Disable…', 'ban', {
    title: `Disable ${name}?`, text: 'Their sign-ins end, and their tokens are refused at once. What they hold stays theirs until it expires. Enabling them brings the tokens back.',
    label: `Disable ${name}`, kind: 'danger', send: () => patch(address, { disabled: true }), done: `${name} is disabled`,
  });
  const reset = item('Reset password…', 'link', {
    title: `Reset the password of ${name}?`, text: 'You get a link that works once, to give to them. Their password works until they choose a new one with it.', label: 'Make a link', send: () => true,
  }, (sure) => sure && invite(member));
  const remove = item(`Remove ${name}…`, 'cross', {
    title: `Remove ${name}?`, text: `Their tokens (${tokenCount}) are revoked for good. To keep everything and only lock them out, disable them instead.`,
    label: `Remove ${name}`, kind: 'danger', send: () => del(address), done: `${name} is removed`,
  });
  return [
    hasPassword || disabled ? null : button({ label: `Invite ${name}`, icon: 'link', onClick: () => invite(member) }),
    menu({ label: `Actions for ${name}`, items: () => [change, ...(disabled ? [enable] : hasPassword ? [reset, disable] : [disable]), null, remove] }),
  ];
}
