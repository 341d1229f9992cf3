// The command palette: finds pages, pipelines and environments by a few letters of their names.

import { get, path } from '../lib/api.js';
import { h, replace } from '../lib/dom.js';
import { pipelinesKnown } from '../lib/pipelines.js';
import { atLeast, me } from '../lib/session.js';
import { go, href } from '../lib/router.js';
import { icon } from './icon.js';
import { look } from './state.js';

const SHOWN_MOST = 40;
// Read at each opening, from the first pipelines only, so that opening stays cheap.
const PIPELINES_MOST = 10;

let opened = null;

export function openPalette() {
  if (opened || !me() || document.querySelector('dialog[open]')) return;
  let places = pages();
  let shown = [];
  let selected = 0;
  const list = h('ul', { id: 'palette-list', role: 'listbox', 'aria-label': 'Results' });
  const input = h('input', { type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'palette-list', 'aria-label': 'Search', placeholder: 'Go to an environment, a pipeline or a page', autocomplete: 'off', spellcheck: 'false' });
  const element = h('dialog', { class: 'dialog palette', 'aria-label': 'Search' }, input, list);
  opened = element;

  const choose = (place) => {
    element.close();
    if (place) go(place.address);
  };
  const draw = () => {
    const terms = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = places.filter(({ text }) => terms.every((term) => text.includes(term))).slice(0, SHOWN_MOST);
    selected = Math.min(selected, Math.max(0, shown.length - 1));
    replace(list, shown.map((place, at) => h('li', {
      role: 'option', id: `palette-${at}`, 'aria-selected': String(at === selected), on: { click: () => choose(place), pointermove: () => select(at) },
    }, icon(place.icon), h('span', null, place.label), h('span', { class: 'quiet small' }, place.note))),
    shown.length === 0 ? h('li', { class: 'quiet' }, 'Nothing has that name.') : null);
    input.setAttribute('aria-activedescendant', shown.length > 0 ? `palette-${selected}` : '');
  };
  const select = (at) => {
    list.children[selected]?.setAttribute('aria-selected', 'false');
    selected = at;
    list.children[selected]?.setAttribute('aria-selected', 'true');
    list.children[selected]?.scrollIntoView({ block: 'nearest' });
    input.setAttribute('aria-activedescendant', `palette-${selected}`);
  };
  input.addEventListener('input', () => { selected = 0; draw(); });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length > 0) select((selected + step + shown.length) % shown.length);
    else if (event.key === 'Enter') choose(shown[selected]);
    else return;
    event.preventDefault();
  });
  element.addEventListener('click', (event) => event.target === element && element.close());
  element.addEventListener('close', () => { element.remove(); opened = null; });
  document.body.append(element);
  element.showModal();
  draw();
  environments().then((found) => {
    places = [...found, ...pages()];
    if (opened === element) draw();
  });
}

function place(name, label, note, address) {
  return { icon: name, label, note, address, text: `${label} ${note}`.toLowerCase() };
}

function pages() {
  const org = me().organization.id;
  const below = (rest) => href(org) + rest;
  return [
    ...pipelinesKnown().map((one) => place('board', one.name, `pipeline ${one.id}`, href(org, one.id))),
    place('list', 'Overview', 'pipelines', href(org)),
    place('rocket', 'Deployments', 'page', below('/-/deployments')),
    place('approve', 'Approvals', 'page', below('/-/approvals')),
    place('list', 'Events', 'page', below('/-/events')),
    place('chart', 'Utilisation', 'page', below('/-/utilisation')),
    place('shield', 'Secrets', 'page', below('/-/secrets')),
    place('box', 'Step registries', 'page', below('/-/registries')),
    place('hook', 'Webhooks', 'page', below('/-/webhooks')),
    place('people', 'Members', 'settings', below('/settings/members')),
    place('key', 'API Tokens', 'settings', below('/settings/tokens')),
    ...(atLeast('admin') ? [place('box', 'Nodes', 'settings', below('/settings/nodes'))] : []),
    place('person', 'My account', 'settings', below('/settings/account')),
  ];
}

async function environments() {
  const org = me().organization.id;
  const lists = await Promise.all(pipelinesKnown().slice(0, PIPELINES_MOST).map(({ id }) =>
    get(`${path('pipelines', id)}/ephemeral-environments`).then((page) => page.data).catch(() => [])));
  return lists.flat().map(({ envName, pipelineId, lockStatus, lock }) =>
    place(look(lockStatus).name, envName, `${pipelineId} · ${lock ? lock.user.name : look(lockStatus).word}`, href(org, pipelineId, envName)));
}
