// Webhooks: where events are sent. Only admins see them.

import { asking, at, empty, go, h, listPage, may, me, notice, orDash, pageHead, post, quiet, replace, row, shownOnce, state, timeElement, wrap } from '../parts/all.js';
import { EVENT_GROUPS } from '../parts/event-words.js';

export function show(context) {
  if (!may('manage-webhooks')) return adminsOnly(context, 'Webhooks');
  return listPage(context, {
    title: 'Webhooks', text: 'Events sent to your own systems, signed, and retried until they arrive.', address: '/webhooks', id: 'webhookId',
    actions: () => asking({ label: 'Add webhook', icon: 'plus', kind: 'primary' }, () => ({
      title: 'Add a webhook', fields: webhookFields({ events: [] }), label: 'Add webhook', send: (values) => post('/webhooks', webhookBody(values)),
    }), async (made) => {
      if (!made) return;
      await go(at('-', 'webhooks', made.data.webhookId));
      showSecret(made);
    }),
    href: ({ webhookId }) => at('-', 'webhooks', webhookId),
    columns: () => [
      ['Receiver', ({ url }) => wrap(host(url))], ['Status', webhookState], ['Events', eventsOf], ['Description', orDash('description')],
      ['Last delivery', ({ lastDelivery: last }) => (last ? row(state(last.status), timeElement(last.at)) : quiet('none yet'))],
    ],
    empty: empty({ icon: 'hook', title: 'No webhooks yet', text: 'Tell a chat, a build server or your own program when an environment is claimed, released or deployed to.' }),
    follow: ['webhook.*'],
  });
}

export const host = (url) => url.replace(/^https?:\/\//, '');
export const eventsOf = ({ events }) => events.join(', ') || 'all';

export function adminsOnly({ main, title }, name) {
  title(name);
  replace(main, h('section', { class: 'page' }, pageHead({ title: name }), notice('accent', `Only admins see this page. You are a ${me().role}.`)));
}

export function webhookState({ enabled, disabledReason, failingSince, pendingDeliveries }) {
  if (!enabled) return h('span', { title: disabledReason }, state('disabled'));
  if (failingSince) return row(state('failed', 'failing for'), timeElement(failingSince, 'since'));
  return pendingDeliveries > 0 ? state('running', `${pendingDeliveries} to send`) : state('enabled');
}

export function showSecret({ data }) {
  shownOnce({ title: 'Signing secret', value: data.secret, text: 'Your receiver checks signatures with it. It is shown only this once; a lost one can be rotated.' });
}

export function webhookFields({ url, events, description }) {
  return [
    { label: 'URL', name: 'url', type: 'url', value: url, required: true, placeholder: 'https://ci.example.com/hooks/lockkeeper', hint: 'A public address, or one that the operator allows.' },
    { label: 'Events', name: 'events', value: events.join(', '), placeholder: 'all', hint: `With commas, such as session.*, deployment.failed. Groups: ${EVENT_GROUPS.join(', ')}.` },
    { label: 'Description', name: 'description', value: description },
  ];
}

export function webhookBody({ url, events = '', description = '' }) {
  return { url, events: events.split(',').map((one) => one.trim()).filter(Boolean), description };
}
