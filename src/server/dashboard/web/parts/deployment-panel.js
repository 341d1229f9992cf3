// A deployment within another page: its stages, actions and live log.

import { get, path } from '../lib/api.js';
import { h, replace } from '../lib/dom.js';
import { me } from '../lib/session.js';
import { href } from '../lib/router.js';
import { timeElement } from '../lib/time.js';
import { deploymentActions } from './deployment-actions.js';
import { refetch } from './list-page.js';
import { log } from './log.js';
import { notice } from './notice.js';
import { stages } from './stages.js';
import { state } from './state.js';

// `holds`: whether its session still has the lock.
export function deploymentPanel({ deploymentId, signal, holds }) {
  const head = h('div', { class: 'stack tight' });
  const read = async () => {
    const { data } = await get(path('deployments', deploymentId), { signal });
    const address = `${href(me().organization.id)}/-/deployments/${deploymentId}`;
    replace(head,
      h('div', { class: 'row spread' },
        h('h2', null, h('a', { href: address, class: 'strong' }, 'Deployment of ', h('span', { class: 'mono' }, data.commitId.slice(0, 12)))),
        h('span', { class: 'row' }, state(data.status), h('span', { class: 'quiet small' }, timeElement(data.finishedAt ?? data.startedAt ?? data.createdAt)))),
      data.stages.length > 0 ? stages(data) : null,
      data.error ? notice('bad', data.error) : null,
      deploymentActions(data, { holds, reload: read }));
  };
  const again = () => read().catch(() => {});
  signal.addEventListener('abort', refetch({ deploymentId }, again, 100));
  read().catch((error) => replace(head, notice('bad', error.detail ?? error.message)));
  return h('section', { class: 'card' }, head, log({ deploymentId, signal }));
}
