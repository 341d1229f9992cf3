// Claiming, releasing, extending and force-claiming, for the board and the page of an environment.

import { del, environmentPath, get, path, post, put } from '../lib/api.js';
import { h, linked } from '../lib/dom.js';
import { isMe } from '../lib/session.js';
import { duration, secondsUntil, timeElement } from '../lib/time.js';
import { keepPlace, leavePlace } from '../lib/waiting.js';
import { confirm } from './dialog.js';
import { field, formDialog, labelsFrom } from './form.js';
import { announce, notice, toast } from './notice.js';
import { person } from './people.js';

const HOUR = 3600;
const TTLS = [['', "The environment's default"], [15 * 60, '15 minutes'], [HOUR, '1 hour'], [4 * HOUR, '4 hours'], [24 * HOUR, '1 day']];

function claimFields() {
  return [
    field({ label: 'Commit', name: 'commitId', hint: 'Deployed at once, if you name one.', spellcheck: 'false', autocapitalize: 'none' }),
    field({ label: 'Context', name: 'context', hint: 'Why, for others who find it taken. Links become links.' }),
    field({ label: 'Ends without activity after', name: 'ttlSeconds', type: 'select', options: TTLS }),
  ];
}

function bodyOf(values) {
  return { ...values, ...(values.ttlSeconds ? { ttlSeconds: Number(values.ttlSeconds) } : {}) };
}

// Resolves with the session, or undefined if the dialog was closed.
export async function claim({ pipelineId, envName }) {
  const session = await formDialog({
    title: `Claim ${envName}`,
    fields: claimFields(),
    submit: { label: `Claim ${envName}`, busyLabel: 'Claiming…' },
    onSubmit: async (values) => (await post(environmentPath(pipelineId, envName, 'sessions'), bodyOf(values))).data,
  });
  if (session) toast(`${envName} is yours${session.expiresAt ? ` for ${duration(secondsUntil(session.expiresAt))}` : ''}.`);
  return session;
}

// Takes a place in the queue of a locked environment and keeps it while this tab is open.
export async function joinQueue({ pipelineId, envName, lock }) {
  const session = await formDialog({
    title: `Wait for ${envName}`,
    intro: h('p', null, lock ? [person(lock.user), ' has it. '] : null, 'Your place is kept while the dashboard is open in this tab.'),
    fields: claimFields(),
    submit: { label: 'Wait in the queue', busyLabel: 'Asking…' },
    onSubmit: async (values) => (await post(environmentPath(pipelineId, envName, 'sessions'), { ...bodyOf(values), queue: true })).data,
  });
  if (session?.lockStatus === 'queued') {
    keepPlace(environmentPath(pipelineId, envName, 'sessions', session.sessionId), session.sessionId);
    toast(`You are number ${session.queuePosition} in the queue for ${envName}.`);
  } else if (session) {
    toast(`${envName} is yours.`);
  }
  return session;
}

export async function leaveQueue({ pipelineId, envName, sessionId }) {
  const place = envName ? environmentPath(pipelineId, envName, 'sessions', sessionId) : `${path('pipelines', pipelineId)}/sessions/${sessionId}`;
  await del(place);
  leavePlace(sessionId);
  toast('You left the queue.');
}

export async function claimAny(pipelineId, labels) {
  const options = [['', 'Any environment'], ...labels.map((label) => [label, label])];
  const session = await formDialog({
    title: 'Claim any environment',
    intro: h('p', { class: 'quiet' }, 'You get the first one that is free. If none is, you wait in the queue while this tab is open.'),
    fields: [field({ label: 'Label', name: 'label', type: 'select', options }), ...claimFields()],
    submit: { label: 'Claim any', busyLabel: 'Claiming…' },
    onSubmit: async ({ label, ...values }) => {
      const [key, ...rest] = (label ?? '').split(':');
      const body = { ...bodyOf(values), queue: true, ...(label ? { labels: { [key]: rest.join(':') } } : {}) };
      return (await post(`${path('pipelines', pipelineId)}/ephemeral-environments/sessions`, body)).data;
    },
  });
  if (session?.lockStatus === 'queued') {
    keepPlace(`${path('pipelines', pipelineId)}/sessions/${session.sessionId}`, session.sessionId);
    toast('All suitable environments are taken. You wait for the first that is free.');
  } else if (session) {
    toast(`${session.envName} is yours.`);
  }
  return session;
}

// The confirmation names the holder, since when, and their deployment.
export async function forceClaim(environment) {
  const { pipelineId, envName } = environment;
  const { data: now } = await get(environmentPath(pipelineId, envName));
  const { lock, currentDeployment } = now;
  const [commit, context, ttl] = claimFields();
  context.input.required = true;
  const session = await formDialog({
    title: `Force-claim ${envName}`,
    intro: lock ? notice('warm',
      h('p', null, h('strong', null, lock.user.name), ' has held ', h('strong', null, envName), ' for ', timeElement(lock.claimedAt, 'since'),
        lock.context ? [': ', linked(lock.context)] : '', '.'),
      currentDeployment ? h('p', null, 'Their deployment of ', h('code', null, currentDeployment.commitId), ' is under way and will be cancelled.') : null,
      h('p', null, 'Their session ends as overridden, and yours begins. The queue keeps waiting.'))
      : h('p', null, `Nobody holds ${envName} now.`),
    fields: [context, commit, ttl],
    submit: { label: `Force-claim ${envName}`, kind: lock ? 'danger' : 'primary', busyLabel: 'Taking over…' },
    onSubmit: async (values) => (await post(environmentPath(pipelineId, envName, 'force-claim'), bodyOf(values))).data,
  });
  if (session) toast(session.overrode ? `${envName} is yours. ${session.overrode.user.name} was overridden.` : `${envName} is yours.`);
  return session;
}

export async function release({ pipelineId, envName, lock, currentDeployment }, { ask = false } = {}) {
  const end = async () => {
    await del(environmentPath(pipelineId, envName, 'sessions', lock.sessionId));
    toast(`${envName} is released.`);
    announce(`${envName} is released`);
  };
  const own = isMe(lock.user);
  if (own && !currentDeployment && !ask) return end();
  return confirm({
    title: `Release ${envName}?`,
    body: h('p', null, own ? 'You have' : [h('strong', null, lock.user.name), ' has'], ' held it since ', timeElement(lock.claimedAt), '. ',
      currentDeployment ? ['The deployment of ', h('code', null, currentDeployment.commitId), ' is under way and will be cancelled.'] : null),
    action: `Release ${envName}`,
    busyLabel: 'Releasing…',
    kind: own ? 'primary' : 'danger',
    onConfirm: end,
  });
}

export async function extend({ pipelineId, envName, lock }) {
  const { data } = await post(environmentPath(pipelineId, envName, 'sessions', lock.sessionId, 'heartbeat'), {});
  toast(data.expiresAt ? `${envName} is yours for ${duration(secondsUntil(data.expiresAt))} more.` : `${envName} never expires on its own.`);
  return data;
}

export async function deploy({ pipelineId, envName, lock }) {
  return formDialog({
    title: `Deploy to ${envName}`,
    fields: [field({ label: 'Commit', name: 'commitId', required: true, spellcheck: 'false', autocapitalize: 'none' })],
    submit: { label: 'Deploy', busyLabel: 'Starting…' },
    onSubmit: async (values) => (await post(environmentPath(pipelineId, envName, 'sessions', lock.sessionId, 'deploy'), values)).data,
  });
}

export async function addEnvironment(pipelineId) {
  const made = await formDialog({
    title: 'Add an environment',
    fields: [
      field({ label: 'Name', name: 'name', required: true, hint: 'Letters, digits, dots, dashes; a part of its address.', spellcheck: 'false', autocapitalize: 'none' }),
      field({ label: 'Description', name: 'description' }),
      field({ label: 'Labels', name: 'labels', hint: 'Such as size:large zone:eu. Jobs can claim any environment with certain labels.' }),
      field({ label: 'A claim ends without activity after (seconds)', name: 'defaultTtlSeconds', type: 'number', value: 3600, min: 1, hint: 'Empty: it holds until somebody releases it.' }),
    ],
    submit: { label: 'Add environment', busyLabel: 'Adding…' },
    onSubmit: async ({ name, labels, ...values }) => {
      const address = `${path('pipelines', pipelineId)}/ephemeral-environments${path(name.trim())}`;
      // Only creates: an existing environment must not lose its configuration.
      const made = await put(address, { ...values, labels: labelsFrom(labels) }, { headers: { 'If-None-Match': '*' } }).catch((error) => {
        throw error.status === 412 ? new Error(`There is already an environment ${name}`) : error;
      });
      return made.data;
    },
  });
  if (made) toast(`${made.envName} is ready.`);
}
