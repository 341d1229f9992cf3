// The stages of a deployment as a row of steps.

import { h } from '../lib/dom.js';
import { duration, timeElement } from '../lib/time.js';
import { state } from './state.js';

export function stages(deployment) {
  return h('ol', { class: 'stages', 'aria-label': 'Stages', tabindex: '0' }, deployment.stages.map((stage) => h('li', { class: `stage ${stage.status}` },
    h('div', { class: 'stage-head' }, state(stage.status, stage.name), h('span', { class: 'visually-hidden' }, stage.status.replaceAll('_', ' ')),
      h('span', { class: 'quiet small' }, time(stage.steps)), stage.attempt > 1 ? h('span', { class: 'tag' }, `attempt ${stage.attempt}`) : null),
    h('ul', null, stage.steps.map((step) => h('li', null, state(step.status, step.name),
      step.exitCode ? h('span', { class: 'bad small' }, `exit ${step.exitCode}`) : null,
      step.uses ? h('span', { class: 'quiet small' }, `${step.uses.registry}/${step.uses.step}@${step.uses.version}`) : null))))));
}

function time(steps) {
  const start = steps.find(({ startedAt }) => startedAt)?.startedAt;
  const last = steps.at(-1)?.finishedAt ?? steps.findLast(({ finishedAt }) => finishedAt)?.finishedAt;
  if (!start) return null;
  const ended = steps.every(({ status }) => status !== 'running') && last;
  return ended ? duration((Date.parse(last) - Date.parse(start)) / 1000) : timeElement(start, 'since');
}
