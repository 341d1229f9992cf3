// One session: from its claim to its end, with its deployments.

import { environmentPath, get } from '../lib/api.js';
import { h, linked, replace } from '../lib/dom.js';
import { isMe, may, me } from '../lib/session.js';
import { href } from '../lib/router.js';
import { clock, duration, timeElement } from '../lib/time.js';
import { button } from '../parts/button.js';
import { deploy, extend, leaveQueue, mayRelease, release } from '../parts/claims.js';
import { deploymentPanel } from '../parts/deployment-panel.js';
import { refetch } from '../parts/list-page.js';
import { notice } from '../parts/notice.js';
import { person } from '../parts/people.js';
import { state } from '../parts/state.js';
import { facts, pageHead, table } from '../parts/table.js';
import { heldSeconds, waitedSeconds } from '../parts/timeline.js';

const EXPIRIES = {
  ttl: 'It expired: there was no activity in time.',
  max_hold: 'It was held as long as the environment allows.',
  unasked: 'Nobody asked for its place in time.',
  vanished: 'Its client was gone.',
};

export async function show({ params, query, signal, main, title }) {
  const { pipelineId, envName, sessionId } = params;
  const org = me().organization.id;
  const address = environmentPath(pipelineId, envName, 'sessions', sessionId);
  const head = h('div', { class: 'stack' });
  const list = h('div', { class: 'stack' });
  const place = h('div', { class: 'stack' });
  let panel = { id: null, controller: null };

  async function read() {
    const { data: session } = await get(address, { signal });
    title(`${session.user.name} on ${envName}`);
    replace(head, headOf(session), cardOf(session));
    const { deployments } = session;
    const chosen = deployments.find(({ deploymentId }) => deploymentId === query.deployment) ?? deployments.at(-1);
    replace(list, deployments.length > 1 ? earlier(deployments, chosen) : null);
    const id = chosen?.deploymentId ?? null;
    const key = `${id} ${session.lockStatus}`;
    if (panel.key === key) return;
    panel.controller?.abort();
    panel = { key, controller: new AbortController() };
    replace(place, id ? deploymentPanel({ deploymentId: id, signal: panel.controller.signal, holds: session.lockStatus === 'active' })
      : h('section', { class: 'card' }, h('p', { class: 'quiet' }, 'Nothing was deployed in this session.')));
  }

  function headOf(session) {
    const isMine = isMe(session.user);
    const active = session.lockStatus === 'active';
    const asEnvironment = { pipelineId, envName, lock: session, currentDeployment: session.deployments.find(({ finishedAt }) => !finishedAt) };
    return pageHead({
      title: `${session.user.name} on ${envName}`,
      text: h('span', { class: 'row' }, state(session.lockStatus), session.context ? h('span', null, linked(session.context)) : null),
      actions: [
        active && isMine && session.expiresAt ? button({ label: 'Extend', icon: 'clock', onClick: async () => { await extend(asEnvironment); await read(); } }) : null,
        active && isMine && may('deploy') ? button({ label: 'Deploy…', icon: 'rocket', onClick: () => deploy(asEnvironment) }) : null,
        active && mayRelease(session) ? button({ label: `Release ${envName}`, kind: isMine ? 'primary' : 'danger', icon: 'free', onClick: async () => { await release(asEnvironment); await read(); } }) : null,
        session.lockStatus === 'queued' && isMine ? button({ label: 'Leave the queue', onClick: async () => { await leaveQueue({ pipelineId, envName, sessionId }); await read(); } }) : null,
      ],
    });
  }

  function cardOf(session) {
    const { endedBy, endedAt, endReason, claimedAt, warning } = session;
    return h('section', { class: 'card' },
      session.overridden ? notice('bad', h('span', null, h('strong', null, endedBy?.name ?? 'Somebody'), ' took the lock by force, ', timeElement(endedAt), '. ',
        endedBy?.sessionId ? h('a', { href: href(org, pipelineId, envName, endedBy.sessionId) }, 'Their session') : null)) : null,
      endReason ? notice('warm', EXPIRIES[endReason] ?? endReason) : null,
      warning ? notice('warm', `${warning.charAt(0).toUpperCase()}${warning.slice(1)}.`) : null,
      facts([
        ['Environment', h('a', { href: href(org, pipelineId, envName) }, envName)],
        ['Who', person(session.user)],
        ['Commit', session.commitId ? h('code', null, session.commitId) : null],
        ['Asked for', h('span', null, clock(session.createdAt))],
        ['Waited', claimedAt ? duration(waitedSeconds(session)) : timeElement(session.createdAt, 'since')],
        [endedAt ? 'Held for' : 'Holds it for', claimedAt ? (endedAt ? duration(heldSeconds(session)) : timeElement(claimedAt, 'since')) : null],
        ['Place in the queue', session.queuePosition],
        ['Time left', session.expiresAt ? timeElement(session.expiresAt, 'left') : endedAt ? null : 'never expires'],
        ['Ended', endedAt ? h('span', null, timeElement(endedAt), endedBy && !session.overridden ? [' by ', endedBy.name] : null) : null],
        ['Fencing token', session.fencingToken],
        ['Session', h('code', { class: 'small' }, session.sessionId)],
      ]));
  }

  function earlier(deployments, chosen) {
    return h('section', { class: 'card flush' }, h('header', null, h('h2', null, 'Deployments'), h('span', { class: 'count' }, deployments.length)), table({
      caption: 'Deployments of this session', rows: [...deployments].reverse(),
      href: ({ deploymentId }) => `${href(org, pipelineId, envName, sessionId)}?deployment=${deploymentId}`,
      columns: [
        { label: 'Commit', cell: ({ commitId, deploymentId }) => h('code', null, commitId.slice(0, 12), deploymentId === chosen.deploymentId ? ' (below)' : '') },
        { label: 'State', cell: ({ status }) => state(status) },
        { label: 'Requested', cell: ({ createdAt }) => timeElement(createdAt) },
        { label: 'Error', cell: ({ error }) => error ?? '' },
      ],
    }));
  }

  await read();
  replace(main, h('article', { class: 'page' }, head, list, place));
  const stop = refetch({ sessionId }, () => read().catch(() => {}), 150);
  return () => {
    stop();
    panel.controller?.abort();
  };
}
