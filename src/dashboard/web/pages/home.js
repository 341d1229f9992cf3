// `/`: the board of the only pipeline, or the overview of several.

import { get } from '../lib/api.js';
import { me } from '../lib/session.js';
import { go, href } from '../lib/router.js';

export async function show({ signal }) {
  const { organization } = me();
  const { data } = await get('/pipelines', { query: { limit: 2 }, signal });
  const last = remembered();
  const known = last ? await get(`/pipelines/${encodeURIComponent(last)}`, { signal }).then(() => last, () => null) : null;
  const pipeline = known ?? data[0]?.id;
  go(pipeline ? href(organization.id, pipeline) : href(organization.id), { replace: true });
}

// The board that was open last.
function remembered() {
  try {
    return localStorage.getItem('pipeline');
  } catch {
    return null;
  }
}
