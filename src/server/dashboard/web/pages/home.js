// `/`: the last opened board, or the first one.

import { get, path } from '../lib/api.js';
import { me } from '../lib/session.js';
import { go, href } from '../lib/router.js';
import { recall } from '../lib/storage.js';

export async function show({ signal }) {
  const { organization } = me();
  const last = recall('pipeline');
  const known = last ? await get(path('pipelines', last), { signal }).then(() => last, () => null) : null;
  const pipeline = known ?? (await get('/pipelines', { query: { limit: 1 }, signal })).data[0]?.id;
  go(pipeline ? href(organization.id, pipeline) : href(organization.id), { replace: true });
}
