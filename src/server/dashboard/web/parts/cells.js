// Small elements for tables and facts.

import { h } from '../lib/dom.js';
import { all } from '../lib/api.js';
import { pipelinesKnown } from '../lib/pipelines.js';
import { href } from '../lib/router.js';
import { me } from '../lib/session.js';
import { timeElement } from '../lib/time.js';

// An address below the organization.
export const at = (...segments) => href(me().organization.id, ...segments);
export const quiet = (...children) => h('span', { class: 'quiet' }, children);
export const mono = (...children) => h('span', { class: 'mono' }, children);
export const strong = (...children) => h('span', { class: 'strong' }, children);
// Text that breaks anywhere instead of widening its table.
export const wrap = (...children) => h('span', { class: 'wrap' }, children);
export const row = (...children) => h('span', { class: 'row' }, children);
export const atEnd = (...children) => h('div', { class: 'row end' }, children);
export const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;
export const upperFirst = (text) => text.charAt(0).toUpperCase() + text.slice(1);
// Cells of one field: its value or a dash, and its time or a text without one.
export const orDash = (name) => (row) => (row[name] ? wrap(row[name]) : quiet('–'));
export const ago = (name, never) => (row) => (row[name] ? timeElement(row[name]) : quiet(never));

// A full SHA is shortened like in git; other commit names are shown completely.
export const shortCommit = (id) => (/^[0-9a-f]{40}$/.test(id) ? id.slice(0, 10) : id);
export const commit = ({ commitId }) => h('span', { class: 'mono', title: commitId }, shortCommit(commitId));
export const environment = ({ pipelineId, envName }) => h('span', null, h('a', { href: at(pipelineId, envName) }, envName), quiet(` in ${pipelineId}`));

// The server's text, with backticked parts as code.
export const coded = (text) => upperFirst(text).split('`').map((part, place) => (place % 2 ? h('code', null, part) : part));

// A field for choosing a pipeline.
export async function pipelineField(signal, any = 'All', label = 'Pipeline') {
  const known = pipelinesKnown();
  const pipelines = known.length > 0 ? known : await all('/pipelines', { signal });
  return { label, name: 'pipelineId', options: [['', any], ...pipelines.map(({ id, name }) => [id, name])] };
}
