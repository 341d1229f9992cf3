// Stages that wait for an approval, and earlier decisions.

import { at, atEnd, commit, empty, environment, listPage, may, notice, person, quiet, row, state, tabs, timeElement } from '../parts/all.js';
import { verdictButtons } from '../parts/deployment-actions.js';

const TABS = { pending: 'Waiting', approved: 'Approved', rejected: 'Rejected', cancelled: 'Cancelled' };

export function show(context) {
  const status = TABS[context.query.status] ? context.query.status : 'pending';
  const waiting = status === 'pending';
  return listPage(context, {
    title: 'Approvals', text: 'Stages that start only when somebody has approved them.', address: '/approvals', asked: { status }, id: 'approvalId',
    below: [
      tabs({ label: 'Approvals', items: Object.entries(TABS).map(([name, label]) => ({ label, href: `${at('-', 'approvals')}?status=${name}`, selected: name === status })) }),
      waiting && !may('approve') ? notice('accent', 'Maintainers and admins approve. You can see what waits, and ask one of them.') : null,
    ],
    href: ({ deploymentId }) => at('-', 'deployments', deploymentId),
    columns: (reload) => [
      ['Stage', ({ stage, attempt }) => [stage, attempt > 1 ? quiet(`, attempt ${attempt}`) : null]], ['Commit', commit], ['Environment', environment],
      ['Requested by', ({ requestedBy }) => person(requestedBy)],
      [waiting ? 'Waiting for' : 'Requested', ({ requestedAt }) => timeElement(requestedAt, waiting ? 'since' : 'ago')],
      ...(!waiting ? [['Decision', decision]] : may('approve') ? [['', (approval) => atEnd(verdictButtons(approval, reload))]] : []),
    ],
    empty: waiting ? empty({ icon: 'check', title: 'Nothing waits for approval', text: 'Stages with an approval appear here as soon as a deployment reaches them.' }) : empty({ title: `Nothing ${status} yet` }),
    follow: ['approval.*', 'stage.cancelled'],
  });
}

function decision({ status, decidedBy, decidedAt, comment }) {
  return row(state(status), decidedBy ? person(decidedBy) : null, decidedAt ? timeElement(decidedAt) : null, comment ? quiet(`“${comment}”`) : null);
}
