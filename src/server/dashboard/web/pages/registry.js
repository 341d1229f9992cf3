// One step registry: its source, sync, and its steps with their inputs.

import { all, asking, at, button, copyable, del, empty, facts, get, go, h, may, mono, notice, pageHead, path, plural, post, put, quiet, refetch, replace, state, timeElement } from '../parts/all.js';
import { registryBody, registryFields } from './registries.js';

export async function show({ params, signal, main, title }) {
  const address = path('step-registries', params.registryId);
  const place = h('section', { class: 'page' });
  let outcome = null;
  const read = async () => {
    const [{ data: registry, etag }, steps] = await Promise.all([get(address, { signal }), all(`${address}/steps`, { signal, most: 1000 })]);
    const { name, git, error, errors, status, stepCount } = registry;
    title(name);
    const sync = () => post(`${address}/sync`).then(({ data }) => { outcome = changes(data); }).finally(read);
    replace(place,
      pageHead({ title: name, text: h('span', { class: 'row' }, state(status), plural(stepCount, 'step')), actions: may('manage-registries') ? actions({ registry, steps, etag, address, sync, read }) : null }),
      git ? h('div', { class: 'card' }, source(registry)) : null, outcome,
      error ? notice('bad', h('p', null, `The last sync failed: ${error}. The steps are those from before.`), errors.map(({ file, message }) => h('p', null, mono(file), ` ${message}`))) : null,
      steps.length > 0 ? steps.map(stepCard) : empty({ icon: 'box', title: 'No steps', text: git ? 'The repository has no steps/*.toml at this commit.' : 'Change the registry to add some.' }));
  };
  await read();
  replace(main, place);
  return refetch({ types: ['registry.*'] }, () => read().catch(() => {}));
}

function source({ git, syncedAt }) {
  return facts([['Repository', git.url], ['Branch or tag', git.ref], ['Commit', git.commit ? mono(git.commit.slice(0, 10)) : 'never synced'],
    ['Access token', git.credential ? mono(git.credential) : null], ['Synced', syncedAt ? timeElement(syncedAt) : 'never']]);
}

function changes({ added, changed, removed }) {
  const words = Object.entries({ new: added, changed, gone: removed }).filter(([, steps]) => steps.length > 0).map(([word, steps]) => `${steps.join(', ')} ${word}`);
  return notice('good', `Synced: ${words.join('; ') || 'nothing has changed'}.`);
}

function stepCard({ name, version, description, uses, inputs, run, http }) {
  return h('article', { class: 'card', 'aria-label': `${name} ${version}` },
    h('header', null, h('h2', null, name, quiet(` ${version}`)), copyable(uses)),
    description ? h('p', null, description) : null,
    Object.entries(inputs).map(([input, { type, required, default: value }]) => h('p', null, h('span', { class: 'mono strong' }, input),
      quiet(` ${type}, ${required ? 'required' : value === null ? 'optional' : `default ${JSON.stringify(value)}`}`))),
    h('pre', { class: 'code', tabindex: 0, 'aria-label': 'What it runs' }, run ? run.map((argument) => (/^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument}'`)).join(' ') : `${http.method} ${http.url}`));
}

function actions({ registry, steps, etag, address, sync, read }) {
  const { name, git } = registry;
  const given = git ? undefined : steps.map((step) => ({ ...step, uses: undefined }));
  return [
    git ? button({ label: 'Sync', icon: 'again', kind: 'primary', busyLabel: 'Fetching…', onClick: sync }) : null,
    asking({ label: 'Change…' }, () => ({
      title: `Change ${name}`, wide: true, fields: registryFields({ ...registry, steps: given }), label: 'Save',
      send: (values) => put(address, registryBody(values), { headers: { 'If-Match': etag } }), done: `${name} is changed`,
    }), read),
    asking({ label: `Delete ${name}…`, kind: 'danger' }, () => ({
      title: `Delete ${name}?`, text: 'A registry that pipelines use is not deleted: change those first.', label: `Delete ${name}`, kind: 'danger', send: () => del(address), done: `${name} is deleted`,
    }), (done) => done && go(at('-', 'registries'))),
  ];
}
