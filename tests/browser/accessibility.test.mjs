// axe on every page, light and dark, at desktop and phone width: no serious violation.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { together, fromNpm } from './support/browser.mjs';
import { little } from './support/dataset.mjs';
import { OUTSIDE, pages } from './support/pages.mjs';

const dashboard = together();
const AXE = readFileSync(fromNpm.resolve('axe-core/axe.min.js'), 'utf8');
const PHONE = { width: 390, height: 844, isMobile: true, hasTouch: true };

dashboard.test('no page has a serious fault of accessibility', async ({ server, open, person }) => {
  const ids = await little(server);
  const faults = [];
  const outside = await open();
  for (const [name, address] of OUTSIDE) faults.push(...await check(outside, name, address));
  const inside = await person('admin', '/acme');
  for (const [name, address] of pages(ids)) faults.push(...await check(inside, name, address));
  assert.deepEqual(faults, []);
});

/** Light and dark, at both widths, without loading the page again. */
async function check(tab, name, address) {
  await tab.go(address);
  await tab.settled();
  const faults = [];
  for (const [scheme, viewport] of [['light', undefined], ['dark', PHONE]]) {
    await tab.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
    await tab.page.setViewport(viewport ?? { width: 1280, height: 800 });
    await tab.settled();
    const { violations } = await tab.page.evaluate(`${AXE}; axe.run(document, { resultTypes: ['violations'] })`);
    for (const { id, impact, help, nodes } of violations) {
      if (impact === 'serious' || impact === 'critical') {
        faults.push(`${name} (${scheme}): ${id}, ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
      }
    }
  }
  return faults;
}
