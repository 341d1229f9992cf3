// One deployment: its state, its stages, its live log, and why it failed.

import { at, button, coded, commit, environment, environmentPath, facts, get, h, may, mono, notice, pageHead, path, person, post, refetch, replace, row, state, timeElement } from '../parts/all.js';
import { deploymentActions } from '../parts/deployment-actions.js';
import { log } from '../parts/log.js';
import { stages } from '../parts/stages.js';
import { analysisCard } from './analysis.js';
import { took } from './deployments.js';

export async function show({ params, signal, main, title }) {
  const address = path('deployments', params.deploymentId);
  const [head, why] = [h('div', { class: 'stack' }), h('div', { class: 'stack' })];
  const read = async () => {
    const deployment = (await get(address, { signal })).data;
    const { commitId, envName, status, finishedAt, startedAt, createdAt } = deployment;
    title(`${commitId} on ${envName}`);
    const holds = await holdsLock(deployment, signal);
    replace(head, pageHead({
      title: ['Deployment of ', commit(deployment)], actions: deploymentActions(deployment, { holds, reload: read }),
      text: row(state(status), timeElement(finishedAt ?? startedAt ?? createdAt)),
    }), card(deployment));
    replace(why, status === 'failed' ? await analysis(address, read, signal) : null);
  };
  await read();
  replace(main, h('section', { class: 'page' }, head, why, log({ deploymentId: params.deploymentId, signal })));
  return refetch({ deploymentId: params.deploymentId }, () => read().catch(() => {}));
}

// Whether the session still has the lock. A reset has no session, and that of a deleted environment is not found.
async function holdsLock({ pipelineId, envName, sessionId, status }, signal) {
  if (!sessionId || !['failed', 'cancelled'].includes(status)) return true;
  const session = await get(environmentPath(pipelineId, envName, 'sessions', sessionId), { signal }).catch(() => null);
  return session?.data.lockStatus === 'active';
}

function card(deployment) {
  const { pipelineId, envName, sessionId, user, createdAt, startedAt, fencingToken, retriedBy, commitId, error, status } = deployment;
  return h('div', { class: 'card' }, stages(deployment),
    error ? notice(status === 'cancelled' ? 'warm' : 'bad', h('span', null, coded(error))) : null,
    status === 'queued' && deployment.stages.length === 0 ? h('p', { class: 'quiet' }, 'Waiting for its turn: another deployment of this environment runs, or the pipeline is stopped.') : null,
    facts([
      ['Environment', environment(deployment)],
      ['Session', sessionId ? h('a', { href: at(pipelineId, envName, sessionId) }, `of ${user?.name}`) : 'none: a reset after a release'],
      ['Commit', mono(commitId)],
      ['By', user ? person(user) : null],
      ['Requested', timeElement(createdAt)],
      ['Took', startedAt ? took(deployment) : null],
      ['Fencing token', fencingToken],
      ['Retried by', retriedBy ? person(retriedBy) : null],
    ]));
}

async function analysis(address, reload, signal) {
  const [latest] = (await get(`${address}/analyses`, { query: { limit: 1 }, signal })).data;
  const ask = may('analyse') ? button({
    label: latest ? 'Analyse again' : 'Find out why it failed', icon: 'search', kind: latest ? '' : 'primary', busyLabel: 'Reading the log…',
    onClick: () => post(`${address}/analyses`, { waitSeconds: 30 }).then(reload),
  }) : null;
  if (latest) return analysisCard(latest, { reload, actions: ask });
  return ask ? h('div', { class: 'card' }, h('h2', null, 'Why did it fail?'),
    h('p', { class: 'quiet' }, 'Reads the log, the exit codes and what changed since the last success, and suggests a fix.'), h('div', null, ask)) : null;
}
