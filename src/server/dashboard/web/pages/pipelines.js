// The overview of an organization: the user's sessions, and the pipelines with stop and resume.

import { all, asking, at, atEnd, empty, get, go, h, icon, live, may, me, notice, orDash, pageHead, path, plural, post, put, quiet, refetch, replace, state, table, timeElement } from '../parts/all.js';

const FOLLOWED = { types: ['session.*', 'pipeline.*', 'environment.*'] };
// There may be fifty events per second; nobody can read faster updates than this.
const REFRESH_MILLISECONDS = 1000;

export async function show({ signal, main, title }) {
  const { organization } = me();
  title(organization.name);
  const place = h('div', { class: 'stack' });
  // Free environments by pipeline; counted again only after events.
  const free = new Map();
  let changed = new Set();
  let newest = 0;
  const read = async () => {
    const number = ++newest;
    const [pipelines, mine, waiting] = await Promise.all([
      all('/pipelines', { signal }),
      get('/sessions', { query: { mine: true, limit: 100 }, signal }),
      all('/sessions', { query: { lockStatus: 'queued' }, signal }),
    ]);
    const draw = () => {
      if (number !== newest) return;
      const rows = pipelines.map((pipeline) => ({ ...pipeline, free: free.get(pipeline.id) ?? '…', waiting: waiting.filter(({ pipelineId }) => pipelineId === pipeline.id).length }));
      replace(place, mine.data.length > 0 ? held(mine.data) : null, rows.filter(({ status }) => status === 'stopped').map(stopped),
        h('section', { class: 'card flush' }, rows.length > 0 ? list(rows, read) : noPipelines()));
    };
    const unknown = pipelines.filter(({ id }) => changed.has(id) || !free.has(id));
    changed = new Set();
    draw();
    Promise.all(unknown.map(async ({ id }) => free.set(id, (await get(path('pipelines', id, 'ephemeral-environments'), { query: { lockStatus: 'unlocked', limit: 1 }, signal })).pagination.total)))
      .then(draw, () => {});
  };
  await read();
  replace(main, h('section', { class: 'page' }, pageHead({ title: organization.name, text: 'What you hold, and the pipelines.' }), place));
  const stops = [
    live.follow(FOLLOWED, ({ pipelineId }) => (pipelineId ? changed.add(pipelineId) : free.clear())),
    refetch(FOLLOWED, () => read().catch(() => {}), REFRESH_MILLISECONDS),
  ];
  return () => stops.forEach((stop) => stop());
}

// First what every user asks: what do I hold, until when, and when is it my turn?
function held(sessions) {
  return h('section', { class: 'card flush' }, h('header', null, h('h2', null, 'Yours')), table({
    caption: 'Your sessions', rows: sessions,
    href: ({ pipelineId, envName, sessionId }) => (envName ? at(pipelineId, envName, sessionId) : at(pipelineId)),
    columns: [
      ['Environment', ({ envName, pipelineId }) => envName ?? `any of ${pipelineId}`],
      ['Status', ({ lockStatus, queuePosition }) => (lockStatus === 'queued' ? state('queued', `waiting, place ${queuePosition}`) : state('mine'))],
      ['Context', orDash('context')], ['Since', ({ claimedAt, createdAt }) => timeElement(claimedAt ?? createdAt, 'since')],
      ['Time left', ({ lockStatus, expiresAt }) => (lockStatus === 'queued' ? quiet('–') : expiresAt ? timeElement(expiresAt, 'left') : 'never expires')],
    ],
  }));
}

function list(rows, reload) {
  return table({
    caption: 'Pipelines', rows, href: ({ id }) => at(id),
    columns: [
      ['Pipeline', ({ name, id }) => [name, name === id ? null : h('span', { class: 'quiet mono small' }, ` ${id}`)]],
      ['Free', ({ free, environmentCount: count }) => (count === 0 ? quiet('no environments') : [h('strong', null, free), ` of ${count}`]), 'nowrap'],
      ['Waiting', ({ waiting }) => (waiting > 0 ? h('strong', null, waiting) : quiet('nobody'))],
      ['Stages', stageLine], ['Status', ({ status }) => (status === 'stopped' ? state('stopped') : state('enabled', 'running'))],
      ...(may('manage-pipelines') ? [['', (pipeline) => atEnd(switchOf(pipeline, reload))]] : []),
    ],
  });
}

function stageLine({ stages }) {
  if (stages.length === 0) return quiet('none');
  return h('ol', { class: 'stage-line' }, stages.map(({ name, approval, steps }) => h('li', { title: plural(steps.length, 'step') + (approval === 'always' ? ', after an approval' : '') },
    approval === 'always' ? icon('hand', 12) : null, name)));
}

function stopped({ name, stoppedBy, stoppedAt, stopReason }) {
  return notice('warm', h('span', null, h('strong', null, name), ' was stopped by ', stoppedBy?.name ?? 'the system', ' ', timeElement(stoppedAt), stopReason ? `: ${stopReason}` : '',
    '. New deployments wait until it is resumed; claims still work.'));
}

function switchOf({ id, name, status }, reload) {
  const address = path('pipelines', id);
  return status === 'stopped' ? asking({ label: `Resume ${id}`, icon: 'play', kind: 'primary' }, () => ({
    title: `Resume ${name}?`, text: 'Deployments that wait start now, in the order in which they came.', label: 'Resume', send: () => post(`${address}/resume`), done: `${name} runs again`,
  }), reload) : asking({ label: `Stop ${id}…`, icon: 'stop' }, () => ({
    title: `Stop ${name}?`, text: 'Deployments that run may finish. New ones wait until somebody resumes it. Environments can still be claimed.',
    fields: [{ label: 'Reason', name: 'reason', hint: 'Shown to everybody who finds it stopped.', maxlength: 1024 }],
    label: `Stop ${id}`, kind: 'danger', send: (values) => post(`${address}/stop`, values), done: `${name} is stopped`,
  }), reload);
}

function noPipelines() {
  const manages = may('manage-pipelines');
  return empty({
    icon: 'board', title: 'No pipelines yet',
    text: manages ? 'A pipeline has environments to claim. Stages and variables come later, by the API or a file.' : 'A pipeline has environments to claim. A maintainer can make the first.',
    action: manages ? asking({ label: 'New pipeline…', kind: 'primary', icon: 'plus' }, () => ({
      title: 'New pipeline',
      fields: [
        { label: 'Id', name: 'pipelineId', required: true, placeholder: 'web', hint: 'Part of its addresses, so it cannot be changed.', maxlength: 63 },
        { label: 'Name', name: 'name', placeholder: 'Web', hint: 'For people; the id if left out.', maxlength: 100 },
      ],
      label: 'Create', send: ({ pipelineId, ...values }) => put(path('pipelines', pipelineId), values), done: ({ data }) => `${data.name} is there; now add its environments`,
    }), (made) => made && go(at(made.data.id))) : null,
  });
}
