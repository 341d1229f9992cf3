// Starts the dashboard: identifies the user, shows a page, and handles the end of a sign-in.

import { ApiError } from './lib/api.js';
import { live } from './lib/live.js';
import { forget, load, me } from './lib/session.js';
import { go, leave, preload, route, start } from './lib/router.js';
import { leaveAllPlaces, pausePlaces, resumePlaces } from './lib/waiting.js';
import { hideShell, pageChanged, showShell } from './parts/shell.js';
import { listenForKeys } from './parts/keys.js';
import { tellOfMySessions } from './parts/my-sessions.js';

const OTHERS = ['environment', 'pages'];
const PUBLIC = /^\/(sign-in|invitation)\/?$/;

route('/', () => import('./pages/home.js'));
route('/sign-in', () => import('./pages/sign-in.js'));
route('/invitation', () => import('./pages/invitation.js'));
route('/:orgId', () => import('./pages/pipelines.js'), ...OTHERS);
route('/:orgId/-/deployments', () => import('./pages/deployments.js'), ...OTHERS);
route('/:orgId/-/deployments/:deploymentId', () => import('./pages/deployment.js'), ...OTHERS);
route('/:orgId/-/approvals', () => import('./pages/approvals.js'), ...OTHERS);
route('/:orgId/-/events', () => import('./pages/events.js'), ...OTHERS);
route('/:orgId/-/analyses/:analysisId', () => import('./pages/analysis.js'), ...OTHERS);
route('/:orgId/-/secrets', () => import('./pages/secrets.js'), ...OTHERS);
route('/:orgId/-/registries', () => import('./pages/registries.js'), ...OTHERS);
route('/:orgId/-/registries/:registryId', () => import('./pages/registry.js'), ...OTHERS);
route('/:orgId/-/webhooks', () => import('./pages/webhooks.js'), ...OTHERS);
route('/:orgId/-/webhooks/:webhookId', () => import('./pages/webhook.js'), ...OTHERS);
route('/:orgId/-/utilisation', () => import('./pages/utilisation.js'), ...OTHERS);
route('/:orgId/settings', () => import('./pages/members.js'), ...OTHERS);
route('/:orgId/settings/members', () => import('./pages/members.js'), ...OTHERS);
route('/:orgId/settings/tokens', () => import('./pages/tokens.js'), ...OTHERS);
route('/:orgId/settings/nodes', () => import('./pages/nodes.js'), ...OTHERS);
route('/:orgId/settings/account', () => import('./pages/account.js'), ...OTHERS);
route('/:orgId/:pipelineId', () => import('./pages/board.js'), 'board');
route('/:orgId/:pipelineId/:envName', () => import('./pages/environment.js'), 'board', ...OTHERS);
route('/:orgId/:pipelineId/:envName/:sessionId', () => import('./pages/session.js'), ...OTHERS);

window.addEventListener('signed-out', (event) => leaveToSignIn(event.detail));
window.addEventListener('signed-in', () => enter());
// Browsers keep left pages alive with their connections, of which they open only six to one server.
window.addEventListener('pagehide', () => {
  live.stop();
  leave();
  pausePlaces();
});
window.addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload();
});

// `refusal` is null if the user chose to leave.
function leaveToSignIn(refusal) {
  const wasInside = me() !== null;
  forget();
  live.stop();
  leaveAllPlaces();
  hideShell();
  if (PUBLIC.test(location.pathname)) return;
  const query = new URLSearchParams();
  if (refusal && location.pathname !== '/') query.set('return', location.pathname + location.search);
  if (refusal && wasInside) query.set('ended', '1');
  go(`/sign-in${query.size > 0 ? `?${query}` : ''}`, { replace: true });
}

function permitted({ orgId }) {
  const mine = me()?.organization.id;
  if (orgId === undefined || orgId === mine) return;
  throw new ApiError(404, { detail: `you are signed in to ${mine}; to see ${orgId}, sign out and sign in there` });
}

// Opens the stream first, so that what pages read afterwards misses nothing.
function enter() {
  showShell();
  live.start();
  resumePlaces();
}

async function begin() {
  listenForKeys();
  tellOfMySessions();
  const main = document.getElementById('main');
  preload();
  if (PUBLIC.test(location.pathname)) return start(main, pageChanged, permitted);
  try {
    await load();
    enter();
  } catch (error) {
    if (error.status === 401) {
      // The event has set the address; the router draws the page.
    } else if (error.status === undefined) {
      main.textContent = 'The server cannot be reached. Reload the page to try again.';
      return undefined;
    } else {
      throw error;
    }
  }
  return start(main, pageChanged, permitted);
}

begin();
