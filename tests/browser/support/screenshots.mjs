// Screenshots of every page: {none, little, much} data × {desktop, phone} × {light, dark}, and an index of them.
import { mkdirSync, writeFileSync } from 'node:fs';
import { launch } from './browser.mjs';
import { EMPTY_ORGANIZATION, little, much } from './dataset.mjs';
import { OUTSIDE, pages } from './pages.mjs';
import { Server } from './server.mjs';
import { Tab } from './tab.mjs';

const FOLDER = 'target/browser';
const WIDTHS = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};
const DATA = {
  none: [{ organization: EMPTY_ORGANIZATION }, async () => ({})],
  little: [{}, little],
  much: [{}, much],
};

const pattern = process.argv[2] ?? '';
mkdirSync(FOLDER, { recursive: true });
const taken = [];
const browser = await launch();
for (const [data, [options, fill]] of Object.entries(DATA)) {
  const server = await Server.start(options);
  try {
    const ids = await fill(server);
    const tab = await Tab.open(await browser.createBrowserContext(), server);
    if (data === 'little') for (const page of OUTSIDE) await picture(tab, data, page);
    await tab.signedIn('admin');
    for (const page of pages(ids)) await picture(tab, data, page);
    await tab.close().catch((error) => console.error(`${data}: ${error.message}`));
  } finally {
    await server.stop();
  }
}
await browser.close();
writeFileSync(`${FOLDER}/index.html`, index());
console.log(`${taken.length} pictures: ${FOLDER}/index.html`);

async function picture(tab, data, [page, address]) {
  for (const [width, viewport] of Object.entries(WIDTHS)) {
    const names = ['light', 'dark'].map((scheme) => [scheme, `${page}-${data}-${width}-${scheme}`]);
    if (!names.some(([, name]) => name.includes(pattern))) continue;
    await tab.page.setViewport(viewport);
    await tab.go('about:blank');
    await tab.go(address);
    try {
      await tab.settled();
    } catch (error) {
      console.error(`${page}-${data}-${width}: ${error.message}`);
    }
    for (const [scheme, name] of names.filter(([, one]) => one.includes(pattern))) {
      await tab.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
      await tab.page.screenshot({ path: `${FOLDER}/${name}.png` });
      taken.push(name);
    }
    const wider = await tab.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wider > 0) console.error(`${page}-${data}-${width}: ${wider} pixels wider than the window`);
  }
}

function index() {
  const figures = taken.map((name) => `<figure><a href="${name}.png"><img src="${name}.png" loading="lazy" width="400"></a><figcaption>${name}</figcaption></figure>`);
  return `<!doctype html><meta charset="utf-8"><title>Pictures</title><style>body{display:flex;flex-wrap:wrap;gap:8px;font:14px sans-serif}figure{margin:0}</style>\n${figures.join('\n')}\n`;
}
