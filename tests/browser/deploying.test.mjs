// Deployments: stages, the live log, approvals, cancelling and retrying.
import assert from 'node:assert/strict';
import { together } from './support/browser.mjs';

const dashboard = together();

dashboard.test('a log is read while it is written, and an approval lets the deployment go on', async ({ server, person }) => {
  const ana = await server.as('ana');
  const { sessionId, deployments } = await ana.claim('shop/staging-1', { commitId: 'c0ffee1' });
  const [{ deploymentId }] = deployments;
  const tab = await person('mia', `/acme/shop/staging-1/${sessionId}`);
  const log = await tab.find('log');
  await tab.sees(/checking out c0ffee1/, { within: log });
  await tab.sees(/compiling checkout/, { within: log });
  await tab.sees(/3 passed/, { within: log });
  await tab.click('button', /^Approve deploy/);
  await tab.click('button', 'Approve', { within: await tab.find('dialog') });
  await tab.sees(/deployed under fencing token/, { within: await tab.find('log') });
  const ended = await ana.deploymentWhen(deploymentId, (one) => one.finishedAt);
  assert.equal(ended.status, 'succeeded');
  await tab.sees(/succeeded/i);
  await server.admin.release('shop/staging-1');
});

dashboard.test('an approval waits in its list until somebody approves it there', async ({ server, person }) => {
  const tab = await person('mia', '/acme/-/approvals');
  await tab.heading(/Approvals/);
  const ana = await server.as('ana');
  const { deployments } = await ana.claim('shop/staging-2', { commitId: 'beefed5' });
  await tab.sees(/staging-2/);
  await tab.click('button', /^Approve deploy/);
  const dialog = await tab.find('dialog');
  await tab.fill('Comment', 'looks good', { within: dialog });
  await tab.click('button', 'Approve', { within: dialog });
  const ended = await ana.deploymentWhen(deployments[0].deploymentId, (one) => one.finishedAt);
  assert.equal(ended.status, 'succeeded');
  await server.admin.release('shop/staging-2');
});

dashboard.test('a running stage is cancelled and tried again', async ({ server, person }) => {
  const { admin } = server;
  const step = { run: ['sh', '-c', 'test -e marker || { touch marker; echo waiting; sleep 300; }; echo done'] };
  await admin.put('/pipelines/slow', { stages: [{ name: 'build', steps: [step] }] });
  await admin.put('/pipelines/slow/ephemeral-environments/one', {});
  const { deployments } = await admin.claim('slow/one', { commitId: 'decade2' });
  const tab = await person('admin', `/acme/-/deployments/${deployments[0].deploymentId}`);
  await tab.sees(/waiting/, { within: await tab.find('log') });
  await tab.click('button', /^Cancel build/);
  await tab.click('button', 'Cancel build', { within: await tab.find('dialog') });
  await tab.click('button', 'Retry build');
  const ended = await admin.deploymentWhen(deployments[0].deploymentId, (one) => one.status === 'succeeded');
  assert.equal(ended.stages[0].attempt, 2);
  await tab.sees(/succeeded/i);
});

dashboard.test('a stopped pipeline says who stopped it and why', async ({ server, person }) => {
  const tab = await person('mia', '/acme');
  await tab.click('button', /^Stop shop/);
  const dialog = await tab.find('dialog');
  await tab.fill('Reason', 'code freeze', { within: dialog });
  await tab.click('button', 'Stop shop', { within: dialog });
  await tab.sees(/code freeze/);
  assert.equal((await server.admin.get('/pipelines/shop')).status, 'stopped');
  await tab.click('button', 'Resume shop');
  await tab.click('button', 'Resume', { within: await tab.find('dialog') });
  await tab.find('button', /^Stop shop/);
});
