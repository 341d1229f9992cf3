// One webhook: what it sends, whether deliveries arrive, and each delivery with its attempts.

import { ago, ask, at, atEnd, button, del, empty, facts, get, go, h, listPage, may, menu, mono, notice, patch, path, post, quiet, replace, row, state, strong, timeElement } from '../parts/all.js';
import { adminsOnly, eventsOf, host, showSecret, webhookBody, webhookFields, webhookState } from './webhooks.js';

// Deliveries cause no events, so an open page polls them.
const POLL_MILLISECONDS = 5000;

export async function show(context) {
  const { params, signal, main } = context;
  if (!may('manage-webhooks')) return adminsOnly(context, 'Webhook');
  const address = path('webhooks', params.webhookId);
  const [place, actions, outcome] = [h('div', { class: 'stack' }), h('div', { class: 'row' }), h('div')];
  let again = () => {};
  const read = async () => {
    const webhook = (await get(address, { signal })).data;
    replace(actions, actionsOf(webhook, address, () => Promise.all([read(), again()]), outcome));
    replace(place, about(webhook));
    return webhook;
  };
  const { url } = await read();
  await listPage(context, {
    title: host(url), below: [place, outcome, h('h2', null, 'Deliveries')], address: `${address}/deliveries`, id: 'deliveryId',
    actions: (reload) => {
      again = reload;
      return actions;
    },
    filters: [{ label: 'Status', name: 'status', options: [['', 'All'], 'pending', 'delivered', 'failed'] }],
    columns: (reload) => [
      ['Event', ({ type }) => strong(type)],
      ['Status', ({ status, nextAttemptAt: next }) => row(state(status), next ? quiet('again ', timeElement(next)) : null)],
      ['Attempts', attempts], ['Recorded', ago('createdAt')],
      ['', ({ deliveryId }) => atEnd(button({ label: 'Redeliver', onClick: () => post(address + path('deliveries', deliveryId, 'redeliver')).then(reload) }))],
    ],
    empty: empty({ icon: 'hook', title: 'Nothing sent yet', text: 'Send a test, or wait for the next event that it wants.' }),
  });
  const timer = setInterval(() => document.hidden || main.querySelector('.table details[open]') || Promise.all([read(), again()]).catch(() => {}), POLL_MILLISECONDS);
  return () => clearInterval(timer);
}

function about(webhook) {
  const { url, description, disabledReason, failingSince, missedEvents, previousSecretExpiresAt: previous, createdAt, pendingDeliveries, enabled } = webhook;
  return [
    enabled ? null : notice('warm', `Disabled${disabledReason ? `: ${disabledReason}` : ''}. Enabling it sends what it missed, as far as that is still kept.`),
    enabled && failingSince ? notice('bad', h('span', null, 'Deliveries have failed for ', timeElement(failingSince, 'since'), '. They are tried again for about a day.')) : null,
    missedEvents > 0 ? notice('warm', `${missedEvents} events were no longer kept when they could have been sent.`) : null,
    h('div', { class: 'card' }, facts([
      ['Status', webhookState(webhook)], ['URL', mono(url)], ['Events', eventsOf(webhook)], ['Description', description], ['Waiting to be sent', pendingDeliveries],
      ['Previous secret signs until', previous ? timeElement(previous) : null], ['Created', timeElement(createdAt)],
    ])),
  ];
}

function attempts({ attempts: list }) {
  const last = list.at(-1);
  return last ? h('details', null, h('summary', null, `${list.length}, last: ${last.error ?? last.statusCode}`),
    list.map(({ at: when, statusCode, error, durationMs, responseExcerpt }) => h('div', null, timeElement(when), ` · ${statusCode ?? 'no answer'} · ${durationMs} ms`,
      error ? h('span', { class: 'bad' }, ` · ${error}`) : null, responseExcerpt ? h('pre', { class: 'code' }, responseExcerpt) : null))) : quiet('none yet');
}

function actionsOf(webhook, address, reload, outcome) {
  const { enabled, url } = webhook;
  const test = async () => {
    const { error, durationMs, statusCode } = (await post(`${address}/test`)).data;
    replace(outcome, error ? notice('bad', `The test did not arrive: ${error} (after ${durationMs} ms).`) : notice('good', `The receiver answered ${statusCode} after ${durationMs} ms.`));
  };
  const item = (icon, question, then) => ({ label: `${question.label}…`, icon, danger: question.kind === 'danger', onClick: () => ask(question, then) });
  const items = [
    item('list', { title: 'Change the webhook', fields: webhookFields(webhook), label: 'Change', send: (values) => patch(address, webhookBody(values)) }, reload),
    item('key', {
      title: 'Rotate the signing secret?', text: 'A new secret signs from now on. The old one signs too for a day, so that your receivers have time to change.',
      label: 'Rotate secret', send: () => post(`${address}/rotate-secret`),
    }, (made) => made && showSecret(made)),
    null,
    item('cross', {
      title: 'Delete this webhook?', text: `Nothing is sent to ${url} any more, and its deliveries are forgotten.`, label: 'Delete webhook', kind: 'danger', send: () => del(address), done: 'The webhook is deleted',
    }, (done) => done && go(at('-', 'webhooks'))),
  ];
  return [
    button({ label: 'Send a test', icon: 'play', kind: 'primary', busyLabel: 'Waiting for the receiver…', onClick: test }),
    button({ label: enabled ? 'Disable' : 'Enable', onClick: () => patch(address, { enabled: !enabled }).then(reload) }),
    menu({ label: 'More actions', items: () => items }),
  ];
}
