// Every page of the dashboard, by name and URL. Tests of all pages use this list.

/** `ids`: what `fill` of dataset.mjs made. Pages of things that do not exist in a dataset are left out. */
export function pages(ids) {
  const all = {
    'pipelines': '/acme',
    'board': ids.pipeline && `/acme/${ids.pipeline}`,
    'environment-free': ids.free && `/acme/${ids.free}`,
    'environment-locked': ids.locked && `/acme/${ids.locked}`,
    'session': ids.session && `/acme/${ids.session}`,
    'deployments': '/acme/-/deployments',
    'deployment': ids.deployment && `/acme/-/deployments/${ids.deployment}`,
    'deployment-failed': ids.failed && `/acme/-/deployments/${ids.failed}`,
    'approvals': '/acme/-/approvals',
    'events': '/acme/-/events',
    'analysis': ids.analysis && `/acme/-/analyses/${ids.analysis}`,
    'secrets': '/acme/-/secrets',
    'registries': '/acme/-/registries',
    'registry': ids.registry && `/acme/-/registries/${ids.registry}`,
    'webhooks': '/acme/-/webhooks',
    'webhook': ids.webhook && `/acme/-/webhooks/${ids.webhook}`,
    'utilisation': '/acme/-/utilisation',
    'members': '/acme/settings/members',
    'tokens': '/acme/settings/tokens',
    'nodes': '/acme/settings/nodes',
    'account': '/acme/settings/account',
    'unknown': '/acme/no-such-pipeline/no-such-environment',
  };
  return Object.entries(all).filter(([, address]) => address);
}

/** Pages of people who have not signed in. */
export const OUTSIDE = [
  ['sign-in', '/sign-in?organization=acme'],
  ['invitation', '/invitation#lki_that-does-not-exist'],
];
