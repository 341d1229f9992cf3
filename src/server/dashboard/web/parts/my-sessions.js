// Tells users on any page about their own sessions: a lock was granted or taken away.

import { environmentPath, get } from '../lib/api.js';
import { h } from '../lib/dom.js';
import { live } from '../lib/live.js';
import { isMe, me } from '../lib/session.js';
import { href } from '../lib/router.js';
import { whenDecided } from '../lib/waiting.js';
import { toast } from './notice.js';

export function tellOfMySessions() {
  whenDecided(({ envName, lockStatus }, address) => {
    if (lockStatus !== 'active') return toast('Your place in a queue has ended.');
    const pipelineId = decodeURIComponent(address.split('/')[2]);
    return tell(`${envName} is yours now`, 'Your turn has come.', pipelineId, envName);
  });
  live.follow({ types: ['session.overridden'] }, async ({ type, actor, pipelineId, envName, sessionId }) => {
    if (type === 'reset' || isMe(actor)) return;
    const { data } = await get(environmentPath(pipelineId, envName, 'sessions', sessionId)).catch(() => ({ data: null }));
    if (data && isMe(data.user)) tell(`${actor.name} took ${envName} from you`, 'Your session has ended as overridden; a deployment of it is cancelled.', pipelineId, envName);
  });
}

// Stays until dismissed, and does not take the keyboard focus.
function tell(title, text, pipelineId, envName) {
  const close = () => element.remove();
  const element = h('div', { class: 'toast stays', role: 'alert', data: { about: envName } }, h('div', null, h('strong', null, title), h('p', null, text)),
    h('div', { class: 'row' }, h('a', { class: 'button small', href: href(me().organization.id, pipelineId, envName), on: { click: close } }, `Open ${envName}`),
      h('button', { type: 'button', class: 'button small quiet', on: { click: close } }, 'Dismiss')));
  const place = document.getElementById('toasts');
  place.querySelector(`[data-about="${CSS.escape(envName)}"]`)?.remove();
  place.append(element);
}
