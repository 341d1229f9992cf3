// Rules for every file of the dashboard: imports that resolve, nothing from other hosts, nothing that the content
// security policy would refuse. In a rarely opened page, a wrong import would be noticed too late.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const WEB = process.env.WEB;
const files = readdirSync(WEB, { recursive: true }).map((name) => join(WEB, name));
const scripts = files.filter((name) => name.endsWith('.js'));
const short = (name) => relative(WEB, name);

test('there are scripts', () => assert.ok(scripts.length > 0));

test('every import names a file and something that it exports', () => {
  const faults = [];
  for (const script of scripts) {
    for (const [, names, from] of code(script).matchAll(/import\s+(?:([^'"();]*?)\s+from\s+)?['"]([^'"]+)['"]/g)) {
      const target = join(dirname(script), from);
      if (!from.startsWith('.') || !existsSync(target)) {
        faults.push(`${short(script)}: ${from}`);
        continue;
      }
      const known = exportsOf(target);
      for (const name of namesIn(names)) if (!known.has(name)) faults.push(`${short(script)}: ${name} of ${from}`);
    }
    for (const [, from] of code(script).matchAll(/import\(\s*['"]([^'"]+)['"]\s*\)/g)) {
      if (!existsSync(join(dirname(script), from))) faults.push(`${short(script)}: ${from}`);
    }
  }
  assert.deepEqual(faults, []);
});

test('no script writes markup as text or runs text as a script', () => {
  const forbidden = /\.(innerHTML|outerHTML|insertAdjacentHTML)\b|\bdocument\.write\b|\beval\(|new Function\(/;
  assert.deepEqual(scripts.filter((script) => forbidden.test(code(script))).map(short), []);
});

test('nothing is loaded from elsewhere', () => {
  const loads = /(?:src|href)=["'](?:https?:)?\/\/|@import|url\(\s*["']?(?:https?:)?\/\/|fetch\(\s*['"]https?:/;
  assert.deepEqual(files.filter((name) => /\.(js|css|html)$/.test(name) && loads.test(code(name))).map(short), []);
});

/** A file without its comments. */
function code(name) {
  return readFileSync(name, 'utf8').replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');
}

function namesIn(clause = '') {
  const braces = clause.match(/\{([^}]*)\}/)?.[1] ?? '';
  return braces.split(',').map((part) => part.trim().split(/\s+as\s+/)[0]).filter(Boolean);
}

function exportsOf(file) {
  const text = code(file);
  const single = [...text.matchAll(/export\s+(?:async\s+)?(?:function\*?|const|let|class)\s+([\w$]+)/g)].map((match) => match[1]);
  const lists = [...text.matchAll(/export\s*(?:const\s*)?[{[]([^}\]]*)[}\]]/g)]
    .flatMap((match) => match[1].split(',').map((part) => part.trim().split(/\s+as\s+/).at(-1)));
  const passedOn = [...text.matchAll(/export\s*\*\s*from\s*['"]([^'"]+)['"]/g)].flatMap((match) => [...exportsOf(join(dirname(file), match[1]))]);
  return new Set([...single, ...lists, ...passedOn]);
}
