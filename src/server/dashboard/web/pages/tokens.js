// API tokens: everyone creates and revokes their own; admins see all and create them for others.

import { ago, all, asking, at, atEnd, clock, copyable, del, empty, h, isMe, listPage, may, me, now, path, person, post, quiet, shownOnce, strong, tabs, timeElement } from '../parts/all.js';

const DAY_MILLISECONDS = 24 * 60 * 60 * 1000;
const EXPIRIES = [['', 'never'], ['7', 'in 7 days'], ['30', 'in 30 days'], ['90', 'in 90 days'], ['365', 'in a year']];

export async function show(context) {
  const manages = may('manage-tokens');
  const here = at('settings', 'tokens');
  const everybody = manages && context.query.all === '1';
  const members = manages ? (await all('/members', { signal: context.signal })).filter(({ disabled }) => !disabled) : [];
  return listPage(context, {
    title: 'API Tokens', text: 'For CI jobs and scripts. A token may do what its member may do, by the role of that moment.',
    address: '/tokens', asked: { mine: everybody ? '' : 'true' }, id: 'tokenId',
    actions: (reload) => asking({ label: 'Create token', icon: 'plus', kind: 'primary' }, () => creation(members), (made) => {
      if (made) showToken(made.data);
      return reload();
    }),
    below: manages ? tabs({ label: 'Tokens', items: [{ label: 'Mine', href: here, selected: !everybody }, { label: 'Everybody’s', href: `${here}?all=1`, selected: everybody }] }) : null,
    columns: (reload) => [
      ['Name', ({ name, lastFour }) => [strong(name), h('span', { class: 'quiet mono small' }, ` …${lastFour}`)]],
      ...(everybody ? [['Member', ({ user }) => (user.name ? person(user, isMe(user) ? 'you' : '') : quiet('a former member'))]] : []),
      ['Created', ({ createdAt, createdBy, user }) => [timeElement(createdAt), createdBy.userId === user.userId ? null : quiet(` by ${createdBy.name ?? 'a former member'}`)]],
      ['Last used', ago('lastUsedAt', 'never')],
      ['Expires', ({ expiresAt }) => (!expiresAt ? quiet('never') : h('span', { class: Date.parse(expiresAt) < now() ? 'bad' : '' }, timeElement(expiresAt)))],
      ['', (token) => atEnd(revoke(token, reload))],
    ],
    empty: empty({ icon: 'key', title: 'No tokens yet', text: 'A CI job needs one to claim environments.' }),
    follow: ['token.*', 'member.removed'],
  });
}

function creation(members) {
  return {
    title: 'Create a token', label: 'Create token',
    fields: [
      { label: 'Token name', name: 'name', required: true, placeholder: 'ci', hint: 'What it is for, so that you know it later.', maxlength: 100 },
      { label: 'Expires', name: 'days', value: '90', options: EXPIRIES },
      members.length > 1 ? { label: 'Member', name: 'userId', value: me().user.userId, options: members.map(({ userId, name, role }) => [userId, `${name} (${role})`]), hint: 'It has this member’s permissions.' } : null,
    ],
    send: ({ days, ...values }) => post('/tokens', { ...values, expiresAt: days ? new Date(now() + days * DAY_MILLISECONDS).toISOString() : null }),
  };
}

function showToken({ token, expiresAt }) {
  shownOnce({
    title: 'New token', value: token,
    text: `Copy it now: it is shown only this once. ${expiresAt ? `It expires ${clock(expiresAt)}.` : 'It never expires; revoke it when you are done.'}`,
    after: [h('p', { class: 'quiet' }, 'Try it:'), copyable(`curl -H "Authorization: Bearer $LOCKKEEPER_TOKEN" ${location.origin}/api/v1/organizations/${me().organization.id}/pipelines`)],
  });
}

function revoke({ name, lastFour, tokenId }, reload) {
  const shown = asking({ label: 'Revoke', kind: 'danger' }, () => ({
    title: `Revoke ${name}?`, text: `What uses the token that ends in ${lastFour} is refused at once. Sessions that it claimed go on until they expire.`,
    label: 'Revoke', kind: 'danger', send: () => del(path('tokens', tokenId)), done: `${name} is revoked`,
  }), reload);
  shown.button.setAttribute('aria-label', `Revoke ${name}`);
  return shown;
}
