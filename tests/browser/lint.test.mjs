// Undefined names in rarely opened pages, and other errors that a compiler would find.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromNpm } from './support/browser.mjs';

const { ESLint } = fromNpm('eslint');
const globals = fromNpm('globals');
const recommended = fromNpm('@eslint/js').configs.recommended.rules;

for (const [what, patterns, known] of [
  ['the dashboard', ['src/server/dashboard/web/**/*.js'], globals.browser],
  ['the browser tests', ['tests/browser/**/*.mjs'], { ...globals.node, ...globals.browser }],
]) {
  test(`no mistakes in the scripts of ${what}`, async () => {
    const eslint = new ESLint({
      overrideConfigFile: true,
      overrideConfig: [{ files: ['**/*.js', '**/*.mjs'], languageOptions: { globals: known, sourceType: 'module' }, rules: { ...recommended, 'no-control-regex': 'off' } }],
    });
    const results = await eslint.lintFiles(patterns);
    const faults = results.flatMap(({ filePath, messages }) => messages.map(({ line, message }) => `${filePath}:${line} ${message}`));
    assert.deepEqual(faults, []);
  });
}
