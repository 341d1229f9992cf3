// Actions on a deployment: approve, reject, retry, cancel, as its state and the user's role allow.

import { h } from '../lib/dom.js';
import { path, post } from '../lib/api.js';
import { isMe, may } from '../lib/session.js';
import { asking } from './ask.js';
import { button } from './button.js';

const STOPPABLE = ['queued', 'running', 'awaiting_approval'];
const RETRYABLE = ['failed', 'cancelled'];

// `holds`: whether its session still has the lock, without which nothing can be retried. `reload` is called after
// changes.
export function deploymentActions(deployment, { holds = true, reload = () => {} } = {}) {
  const { stages, status, sessionId, deploymentId, envName } = deployment;
  const allowed = may(isMe(deployment.user) ? 'deploy' : 'manage-deployments');
  const awaiting = may('approve') && stages.find(({ approval }) => approval?.status === 'pending');
  const stoppable = allowed && stages.find((stage) => STOPPABLE.includes(stage.status));
  const retryable = allowed && holds && sessionId && RETRYABLE.includes(status) && stages.find((stage) => RETRYABLE.includes(stage.status));
  const address = (stage, verb) => path('deployments', deploymentId, 'stages', stage.name, verb);
  const buttons = [
    awaiting ? verdictButtons({ ...deployment, ...awaiting.approval, stage: awaiting.name }, reload) : null,
    retryable ? button({ label: `Retry ${retryable.name}`, icon: 'again', onClick: () => post(address(retryable, 'retry')).then(reload) }) : null,
    stoppable ? asking({ label: `Cancel ${stoppable.name}…`, kind: 'danger', icon: 'ban' }, () => ({
      title: `Cancel ${stoppable.name}?`, label: `Cancel ${stoppable.name}`, kind: 'danger', send: () => post(address(stoppable, 'cancel')), done: `${stoppable.name} is being cancelled`,
      text: `The running step is killed with everything it started, and the stages after it are skipped. ${envName} stays locked.`,
    }), reload) : null,
  ].flat().filter(Boolean);
  return buttons.length > 0 ? h('div', { class: 'row' }, buttons) : null;
}

// approval: {approvalId, stage, envName, commitId}
export function verdictButtons({ approvalId, stage, envName, commitId }, reload) {
  const verdict = (verb, past, kind, icon, name, text) => asking({ label: `${verb} ${stage}…`, kind, icon }, () => ({
    title: `${verb} ${stage} of ${commitId}?`, text, label: verb, kind, done: `${past} ${stage} on ${envName}`,
    fields: [{ label: name, name: name.toLowerCase(), hint: 'For others who look at the deployment. May be left empty.', maxlength: 1024 }],
    send: (values) => post(path('approvals', approvalId, verb.toLowerCase()), values),
  }), reload);
  return [
    verdict('Approve', 'Approved', 'primary', 'check', 'Comment', `The stage starts at once on ${envName}.`),
    verdict('Reject', 'Rejected', 'danger', 'cross', 'Reason', `The deployment to ${envName} ends as failed. The stage can be retried while its session holds the lock.`),
  ];
}
