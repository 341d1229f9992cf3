// The organization's pipelines and pending approvals, for the navigation and the palette.

import { all, get } from './api.js';

let known = { pipelines: [], approvals: 0 };

export const pipelinesKnown = () => known.pipelines;
export const approvalsKnown = () => known.approvals;

export function pipelineName(id) {
  return known.pipelines.find((one) => one.id === id)?.name ?? id;
}

// After an error the known values stay; the navigation shows no errors.
export async function readPipelines() {
  const [pipelines, approvals] = await Promise.all([
    all('/pipelines').catch(() => known.pipelines),
    get('/approvals', { query: { status: 'pending', limit: 1 } }).then((page) => page.pagination.total).catch(() => known.approvals),
  ]);
  known = { pipelines, approvals };
}

export function forgetPipelines() {
  known = { pipelines: [], approvals: 0 };
}
