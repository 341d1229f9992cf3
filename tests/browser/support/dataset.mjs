// Test data: none, little, much. `fill` returns the ids that URLs need.

/** An organization in which nothing has been made yet. */
export const EMPTY_ORGANIZATION = '[organization]\nid = "acme"\nname = "Acme"\n[[members]]\nname = "admin"\nrole = "admin"\n';

const FAILING = ['sh', '-c', 'echo "npm ci"; echo "npm ERR! code ENOSPC"; echo "npm ERR! nospc ENOSPC: no space left on device, write" >&2; exit 1'];
// Concurrent requests while much data is created.
const AT_ONCE = 32;

/** What a team of five has on an ordinary morning. The server has the sample organization. */
export async function little(server) {
  const { admin } = server;
  const [ana, ben, mia] = await Promise.all(['ana', 'ben', 'mia'].map((name) => server.as(name)));
  await ana.claim('web/review-1', { commitId: 'c0ffee1', context: 'PR 412 https://git.example/acme/web/pull/412', ttlSeconds: 600 });
  await ben.claim('web/review-1', { queue: true, context: 'PR 415' });
  await mia.claim('web/review-1', { queue: true, context: 'hotfix', priority: 10 });
  await ben.claim('web/review-2', { commitId: 'decade2', context: 'PR 398' });
  await ben.release('web/review-2');
  const waiting = await ana.claim('shop/staging-1', { commitId: 'beefed5', context: 'release 2.31' });
  const [deployment] = waiting.deployments;
  await admin.deploymentWhen(deployment.deploymentId, (one) => one.status === 'awaiting_approval');
  const { failed, analysis } = await failedDeployment(admin);
  await admin.post('/secrets', { name: 'DEPLOY_KEY', value: 'only-for-the-tests-2931', description: 'for the registry' });
  const registry = await admin.post('/step-registries', {
    name: 'tools',
    steps: [{ name: 'scan', version: '1.2.0', description: 'Looks for known faults', inputs: { TARGET: { type: 'string', required: true } }, run: ['echo', 'scanned'] }],
  });
  const webhook = await admin.post('/webhooks', { url: 'http://127.0.0.1:9/hook', events: ['session.*', 'deployment.failed'] });
  await admin.post('/tokens', { name: 'ci', user: 'ben' });
  return {
    pipeline: 'web',
    free: 'web/review-2',
    locked: 'web/review-1',
    session: `shop/staging-1/${waiting.sessionId}`,
    deployment: deployment.deploymentId,
    failed,
    analysis,
    registry: registry.registryId,
    webhook: webhook.webhookId,
  };
}

async function failedDeployment(admin) {
  await admin.put('/pipelines/docs', { name: 'Documentation', stages: [{ name: 'build', steps: [{ name: 'install', run: FAILING }] }] });
  await admin.put('/pipelines/docs/ephemeral-environments/preview', { defaultTtlSeconds: 3600, labels: { kind: 'preview' } });
  const { sessionId } = await admin.claim('docs/preview', { context: 'broken' });
  const { deploymentId } = await admin.post(`/pipelines/docs/ephemeral-environments/preview/sessions/${sessionId}/deploy`, { commitId: 'bad1dea', waitSeconds: 60 });
  const { analysisId } = await admin.post(`/deployments/${deploymentId}/analyses`);
  return { failed: deploymentId, analysis: analysisId };
}

/** The pipeline `fleet` with many environments, some of them locked, some with a queue; and many of everything else. */
export async function fleet(server, count) {
  const { admin } = server;
  const people = await Promise.all(['ana', 'ben', 'mia'].map((name) => server.as(name)));
  await admin.put('/pipelines/fleet', { name: 'Fleet' });
  const names = Array.from({ length: count }, (_, index) => `env-${String(index + 1).padStart(4, '0')}`);
  await each(names, async (name, index) => {
    await admin.put(`/pipelines/fleet/ephemeral-environments/${name}`, {
      labels: { size: ['small', 'medium', 'large'][index % 3], zone: `zone-${index % 7}` },
      description: `Environment ${index + 1}`,
    });
    if (index % 3 !== 0) return;
    const holder = people[index % people.length];
    await holder.claim(`fleet/${name}`, { commitId: commit(index), context: `PR ${1000 + index}`, ttlSeconds: 900 + index });
    if (index % 9 === 0) await people[(index + 1) % people.length].claim(`fleet/${name}`, { queue: true, context: `PR ${5000 + index}` });
  });
  return names;
}

export async function much(server) {
  const ids = await little(server);
  const names = await fleet(server, 2000);
  const { admin } = server;
  await each(Array.from({ length: 60 }, (_, index) => index), async (index) => {
    await admin.post('/members', { name: `person-${index}`, role: ['viewer', 'developer', 'maintainer'][index % 3] });
    await admin.post('/tokens', { name: `job-${index}-with-a-rather-long-name-to-see-how-it-is-cut`, user: 'ben' });
    await admin.post('/secrets', { name: `SECRET_${index}`, value: `only-for-the-tests-${index}-2931` });
  });
  return { ...ids, pipeline: 'fleet', free: `fleet/${names[1]}`, locked: `fleet/${names[0]}` };
}

const commit = (index) => (0x1000000 + index * 7919).toString(16);

/** Runs a step for each item, some at once. */
export async function each(items, step) {
  let next = 0;
  const worker = async () => {
    while (next < items.length) {
      const index = next;
      next += 1;
      await step(items[index], index);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
