// Deployments of the whole organization, newest first.

import { ago, at, commit, duration, empty, environment, listPage, person, pipelineField, quiet, state, timeElement } from '../parts/all.js';

const STATUSES = ['queued', 'running', 'awaiting_approval', 'succeeded', 'failed', 'cancelling', 'cancelled'];

export async function show(context) {
  return listPage(context, {
    title: 'Deployments', address: '/deployments', id: 'deploymentId',
    filters: [
      { label: 'Status', name: 'status', options: [['', 'All'], ...STATUSES.map((status) => [status, status.replaceAll('_', ' ')])] },
      await pipelineField(context.signal),
      { label: 'Environment', name: 'envName', placeholder: 'review-1' },
    ],
    href: ({ deploymentId }) => at('-', 'deployments', deploymentId),
    columns: () => [
      ['Commit', commit], ['Status', ({ status }) => state(status)], ['Environment', environment], ['Stages', progress],
      ['By', ({ user }) => (user ? person(user) : quiet('reset after a release'))], ['Requested', ago('createdAt')], ['Took', took, 'number'],
    ],
    empty: empty({ icon: 'rocket', title: 'No deployments yet', text: 'Claim an environment with a commit, or deploy one in a session that holds a lock.' }),
    follow: ['deployment.*', 'stage.*', 'approval.*'],
  });
}

function progress({ stages }) {
  if (stages.length === 0) return quiet('–');
  const done = stages.filter(({ status }) => status === 'succeeded').length;
  const now = stages.find(({ status }) => !['succeeded', 'pending', 'skipped'].includes(status));
  return [`${done} of ${stages.length}`, now ? quiet(` · ${now.name}`) : null];
}

export function took({ startedAt, finishedAt }) {
  if (!startedAt) return quiet('–');
  return finishedAt ? duration((Date.parse(finishedAt) - Date.parse(startedAt)) / 1000) : timeElement(startedAt, 'since');
}
