// The machines that share the work, and their shards.

import { empty, get, h, inWords, me, notice, pageHead, quiet, replace, state, strong, table } from '../parts/all.js';

// Owners change within seconds without an event. Needs no retry, since it polls anyway.
const AGAIN_MILLISECONDS = 3000;

export async function show({ main, signal, title }) {
  title('Nodes');
  const [place, trouble] = [h('div', { class: 'stack' }), h('div')];
  const read = async () => {
    const cluster = (await get('/cluster', { signal })).data;
    replace(trouble);
    replace(place, cluster.shard === null ? alone() : drawn(cluster));
  };
  await read();
  replace(main, h('section', { class: 'page' }, pageHead({ title: 'Nodes', text: 'The machines that share the work, and the shards of organizations that each of them owns.' }), trouble, place));
  const timer = setInterval(() => {
    if (document.hidden) return;
    read().catch((error) => error.name === 'AbortError' || replace(trouble, notice('bad', inWords(error))));
  }, AGAIN_MILLISECONDS);
  return () => clearInterval(timer);
}

function alone() {
  return empty({ icon: 'box', title: 'One machine', text: 'This server keeps its data on its own disk. Several machines can share the work, and take over from each other: see the operator’s guide, “Several machines”.' });
}

function drawn({ shard, owner, nodes, shards }) {
  const without = shards.filter((one) => one.owner === null);
  return [
    h('div', { class: 'card' }, h('p', { class: 'sentence' }, owner ? [`${me().organization.name} is answered by `, strong(owner), '.'] : `${me().organization.name} is being taken over by another node.`),
      h('p', { class: 'quiet' }, `Its shard is ${shard} of ${shards.length}, counted from 0.`)),
    without.length > 0 ? notice('warm', `Being taken over: ${without.map((one) => one.shard).join(', ')}.`) : null,
    h('section', { class: 'card flush' }, h('header', null, h('h2', null, 'Nodes')), table({
      caption: 'Nodes and what they own',
      columns: [
        ['Node', ({ node }) => strong(node)], ['State', ({ lives }) => state(lives ? 'alive' : 'silent')],
        ['Shards', (one) => (one.shards === 0 ? quiet('none') : shards.filter((each) => each.owner === one.node).map((each) => each.shard).join(', '))],
        ['Version', 'version'],
      ],
      rows: nodes,
    })),
  ];
}
