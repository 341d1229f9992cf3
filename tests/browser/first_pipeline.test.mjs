// An empty organization.
import { together } from './support/browser.mjs';

const dashboard = together({ organization: `
  [organization]
  id = "acme"
  name = "Acme"
  [[members]]
  name = "admin"
  role = "admin"
  [[members]]
  name = "vic"
  role = "viewer"
` });

dashboard.test('the first pipeline and its first environment are made with buttons', async ({ person }) => {
  const viewer = await person('vic', '/acme');
  await viewer.sees(/No pipelines yet/);
  await viewer.gone('button', /^New pipeline/);
  const tab = await person('admin', '/acme');
  await tab.click('button', /^New pipeline/);
  const asked = await tab.find('dialog');
  await tab.fill(/^Id/, 'not allowed', { within: asked });
  await tab.click('button', /^Create/, { within: asked });
  await tab.sees(/letters|digits|characters|start/i);
  await tab.fill(/^Id/, 'web', { within: asked });
  await tab.fill(/^Name/, 'Web shop', { within: asked });
  await tab.click('button', /^Create/, { within: asked });
  await tab.at('/acme/web');
  await tab.sees(/No environments yet/);
  await tab.find('button', /^Add environment/);
  await viewer.sees(/Web shop/);
});
