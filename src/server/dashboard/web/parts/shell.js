// The frame around the pages: breadcrumbs, navigation, connection state, account.

import { root } from '../lib/api.js';
import { h, replace, setClass, setText } from '../lib/dom.js';
import { live } from '../lib/live.js';
import { approvalsKnown, forgetPipelines, pipelineName, pipelinesKnown, readPipelines } from '../lib/pipelines.js';
import { clock, eachSecond } from '../lib/time.js';
import { atLeast, me } from '../lib/session.js';
import { href } from '../lib/router.js';
import { icon, mark } from './icon.js';
import { iconButton } from './button.js';
import { menu } from './menu.js';
import { avatar } from './people.js';
import { openHelp, openPalette } from './keys.js';

// More names would hide the rest of the navigation; the others are on the overview and in the palette.
const PIPELINES_SHOWN = 12;

const SECTIONS = {
  deployments: 'Deployments', approvals: 'Approvals', events: 'Events', utilisation: 'Utilisation', secrets: 'Secrets', registries: 'Step registries',
  webhooks: 'Webhooks', analyses: 'Analysis', members: 'Members', tokens: 'API Tokens', nodes: 'Nodes', account: 'My account',
};

let stops = [];
let page = { path: '/', params: {} };
let parts = null;

export function showShell() {
  if (parts) return;
  const crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Where you are' });
  const status = h('span', { class: 'live connecting', role: 'status' }, h('span', null, 'Connecting'));
  const lost = h('div', { class: 'lost-bar', hidden: true });
  const side = h('nav', { class: 'side', 'aria-label': 'Main' });
  const toggle = iconButton({ label: 'Menu', icon: 'menu', onClick: () => document.body.classList.toggle('side-open') });
  toggle.id = 'side-toggle';
  const finder = h('button', { type: 'button', class: 'button finder', 'aria-label': 'Search', on: { click: () => openPalette() } },
    icon('search'), h('span', null, 'Search'), h('kbd', null, 'Ctrl K'));
  const shade = h('button', { type: 'button', class: 'side-shade', tabindex: -1, 'aria-label': 'Close the menu', on: { click: closeSide } });
  const bar = h('header', { class: 'bar' }, toggle, h('a', { class: 'brand', href: '/', 'aria-label': 'Lockkeeper, overview' }, mark()), crumbs, finder, status, accountMenu());
  parts = { crumbs, status, lost, side };
  document.body.classList.add('framed');
  replace(document.getElementById('shell'), bar, lost, side, shade);
  stops = [
    live.on('state', showState),
    eachSecond(() => live.state().status === 'lost' && showState(live.state())),
    live.follow({ types: ['pipeline.*', 'approval.*', 'deployment.cancelled', 'environment.*'] }, refreshSoon),
  ];
  showState(live.state());
  drawNavigation();
  refresh();
}

export function hideShell() {
  stops.forEach((stop) => stop());
  stops = [];
  parts = null;
  forgetPipelines();
  document.body.classList.remove('framed', 'lost', 'side-open');
  replace(document.getElementById('shell'));
}

export function pageChanged(next) {
  page = next;
  closeSide();
  if (parts) drawNavigation();
}

function closeSide() {
  document.body.classList.remove('side-open');
}

let timer = null;

function refreshSoon() {
  timer ??= setTimeout(() => {
    timer = null;
    refresh();
  }, 500);
}

async function refresh() {
  if (!me()) return;
  await readPipelines();
  if (parts) drawNavigation();
}

function drawNavigation() {
  drawCrumbs();
  const org = me().organization.id;
  const pipelines = pipelinesKnown();
  const shown = pipelines.slice(0, PIPELINES_SHOWN);
  const open = pipelines.find((one) => one.id === page.params.pipelineId);
  if (open && !shown.includes(open)) shown.push(open);
  const item = (name, text, address, extra) => {
    const here = page.path === address || page.path.startsWith(`${address}/`);
    return h('a', { href: address, 'aria-current': here && address !== href(org) || page.path === address ? 'page' : null }, icon(name), h('span', null, text), extra ?? null);
  };
  replace(parts.side,
    h('section', null, h('h2', null, 'Pipelines'), item('list', 'Overview', href(org)),
      shown.map((one) => item('board', one.name, href(org, one.id), one.status === 'stopped' ? h('span', { class: 'tag' }, 'stopped') : null))),
    h('section', null, h('h2', null, 'Activity'),
      item('rocket', 'Deployments', `${href(org)}/-/deployments`),
      item('approve', 'Approvals', `${href(org)}/-/approvals`, approvalsKnown() > 0 ? h('span', { class: 'count alert' }, approvalsKnown()) : null),
      item('list', 'Events', `${href(org)}/-/events`),
      item('chart', 'Utilisation', `${href(org)}/-/utilisation`)),
    h('section', null, h('h2', null, 'Set-up'),
      item('shield', 'Secrets', `${href(org)}/-/secrets`),
      item('box', 'Step registries', `${href(org)}/-/registries`),
      atLeast('admin') ? item('hook', 'Webhooks', `${href(org)}/-/webhooks`) : null),
    h('section', null, h('h2', null, 'Organization Settings'),
      item('people', 'Members', `${href(org)}/settings/members`),
      item('key', 'API Tokens', `${href(org)}/settings/tokens`),
      atLeast('admin') ? item('box', 'Nodes', `${href(org)}/settings/nodes`) : null,
      item('person', 'My account', `${href(org)}/settings/account`)));
}

function drawCrumbs() {
  const { organization } = me();
  const { pipelineId, envName, sessionId } = page.params;
  const steps = [[organization.name, href(organization.id), 'root']];
  if (pipelineId) steps.push([pipelineName(pipelineId), href(organization.id, pipelineId)]);
  if (envName) steps.push([envName, href(organization.id, pipelineId, envName)]);
  if (sessionId) steps.push(['session', page.path]);
  const section = /^\/[^/]+\/(?:-|settings)\/([^/]+)/.exec(page.path);
  if (section) steps.push([SECTIONS[section[1]] ?? section[1], section[0]]);
  replace(parts.crumbs, steps.map(([text, address, name], place) => [
    place > 0 ? h('span', { class: 'slash', 'aria-hidden': 'true' }, '/') : null,
    address === page.path ? h('span', { class: `here ${name ?? ''}`, 'aria-current': 'page' }, text) : h('a', { class: name, href: address }, text),
  ]));
}

function showState({ status, since }) {
  const isLost = status === 'lost';
  setClass(parts.status, `live ${status}`);
  setText(parts.status.firstChild, { live: 'Live', connecting: 'Connecting', lost: 'Offline' }[status]);
  document.body.classList.toggle('lost', isLost);
  parts.lost.hidden = !isLost;
  if (!isLost) return replace(parts.lost);
  const text = `Connection lost since ${clock(new Date(since).toISOString())}. What you see may be old; it catches up when the server is back.`;
  if (!parts.lost.firstChild) replace(parts.lost, icon('alert'), h('span', { role: 'status' }, text));
  else setText(parts.lost.lastChild, text);
  return undefined;
}

function accountMenu() {
  const { user, organization } = me();
  const content = [avatar(user.name), h('span', null, user.name), icon('down')];
  return menu({
    label: user.name,
    content,
    class: 'button quiet account',
    items: () => [
      { label: 'My account', icon: 'person', href: `${href(organization.id)}/settings/account` },
      { label: 'API Tokens', icon: 'key', href: `${href(organization.id)}/settings/tokens` },
      { label: 'Keyboard', icon: 'help', onClick: openHelp },
      { label: 'API explorer', icon: 'link', href: '/docs/' },
      null,
      { label: 'Sign out', icon: 'out', onClick: signOut },
    ],
  });
}

async function signOut() {
  try {
    await root.post('/auth/sign-out', {});
  } catch (error) {
    if (error.status === undefined) return; // Unreachable: the bar shows it, and the sign-in is kept.
  }
  window.dispatchEvent(new CustomEvent('signed-out', { detail: null }));
}
