// An event as a sentence: who did what to which thing, or what the server did to it.

import { h } from '../lib/dom.js';
import { at, shortCommit, upperFirst } from './cells.js';

const EXPIRED = { ttl: 'no activity in time', max_hold: 'held as long as allowed', unasked: 'nobody asked for it any more', vanished: 'its client was gone' };

// Words between the actor's name and the environment or pipeline. The default comes from the type: "created secret X".
const WORDS = {
  'session.queued': () => 'began to wait for',
  'session.overridden': () => 'took the lock by force on',
  'deployment.queued': ({ commitId }) => `asked to deploy ${shortCommit(commitId)} to`,
  'member.updated': ({ name, role, previousRole, disabled }) => (previousRole ? `changed ${name} from ${previousRole} to ${role}`
    : `${disabled === undefined ? 'updated' : disabled ? 'disabled' : 'enabled'} member ${name}`),
  'member.invited': ({ name }) => `made an invitation for ${name}`,
  'token.exchanged': ({ subject }) => `got a token for the job ${subject}`,
  'member.signed_in': () => 'signed in',
  'member.signed_out': () => 'signed out',
  'member.password_changed': () => 'set a new password',
  'analysis.completed': () => 'found the cause of a failure on',
  'pull_request.created': () => 'proposed a fix for',
};
// Words after the thing and its place, for events without an actor.
const ENDINGS = {
  'session.expired': ({ reason }) => `ended: ${EXPIRED[reason] ?? 'expired'}`,
  'approval.requested': () => 'needs approval',
  'webhook.disabled': ({ reason }) => `was disabled: ${reason}`,
};
// The thing; things of an environment include a preposition.
const THINGS = {
  session: () => 'a session on',
  deployment: ({ commitId }) => `the deployment of ${shortCommit(commitId)} to`,
  stage: ({ stage }) => `stage ${stage} on`,
  approval: ({ stage }) => `stage ${stage} on`,
};

export const EVENT_GROUPS = ['session', 'deployment', 'stage', 'approval', 'environment', 'pipeline', 'secret', 'registry', 'token', 'member', 'webhook', 'analysis', 'pull_request'];

export function eventWords({ type, actor, data = {}, pipelineId, envName }) {
  const [group, last] = type.split('.');
  const verb = last.replaceAll('_', ' ');
  const place = pipelineId ? h('a', { href: at(...[pipelineId, envName].filter(Boolean)) }, envName ?? pipelineId) : null;
  const named = pipelineId && !data.version ? '' : data.name ?? data.host ?? '';
  const thing = THINGS[group]?.(data) ?? `${group.replace('_', ' ')} ${named}`.trim();
  if (actor?.kind === 'system') {
    const ending = ENDINGS[type]?.(data) ?? (THINGS[group] ? verb : `was ${verb}`);
    return h('span', null, upperFirst(thing), ' ', place, ` ${ending}`);
  }
  const words = WORDS[type]?.(data) ?? (group === 'session' ? verb : `${verb} ${thing}`);
  return h('span', null, h('span', { class: 'strong' }, actor?.name), ` ${words} `, place, data.reason && group === 'pipeline' ? `: ${data.reason}` : null);
}
