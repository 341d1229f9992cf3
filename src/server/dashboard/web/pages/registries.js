// Step registries: steps that pipelines use by name and version, from a git repository or given directly.

import { asking, at, empty, field, go, h, listPage, may, post, quiet, state, timeElement, wrap } from '../parts/all.js';

const EXAMPLE = [{ name: 'greet', version: '1.0', inputs: { WHOM: { type: 'string', default: 'world' } }, run: ['sh', '-c', 'echo hello $WHOM'] }];

export function show(context) {
  return listPage(context, {
    title: 'Step registries', text: 'Steps that many pipelines share, by name and version.', address: '/step-registries', id: 'registryId',
    actions: () => (may('manage-registries') ? asking({ label: 'Add registry', icon: 'plus', kind: 'primary' }, () => ({
      title: 'Add a step registry', wide: true, fields: registryFields({}), label: 'Add registry',
      send: (values) => post('/step-registries', registryBody(values)), done: ({ data }) => `${data.name} is added`,
    }), (made) => made && go(at('-', 'registries', made.data.registryId))) : null),
    href: ({ registryId }) => at('-', 'registries', registryId),
    columns: () => [
      ['Name', 'name'], ['Status', ({ status, error }) => h('span', { title: error }, state(status))],
      ['Source', ({ git }) => (git ? wrap(git.url, quiet(` at ${git.ref}`)) : quiet('a list of steps'))],
      ['Steps', 'stepCount', 'number'], ['Synced', ({ syncedAt, updatedAt }) => timeElement(syncedAt ?? updatedAt)],
    ],
    empty: empty({ icon: 'box', title: 'No step registries yet', text: 'Keep the steps that several pipelines need in one place: a git repository with steps/*.toml, or a list.' }),
    follow: ['registry.*'],
  });
}

// The fields of a registry; those of the unused source are hidden.
export function registryFields({ name, git, steps }) {
  const source = field({ label: 'Source', name: 'source', value: steps ? 'steps' : 'git', options: [['git', 'a git repository'], ['steps', 'a list of steps']] });
  const ofGit = [
    { label: 'Repository', name: 'git.url', value: git?.url, placeholder: 'https://git.example/acme/steps.git', hint: 'https or ssh, with one steps/*.toml for each step.' },
    { label: 'Branch or tag', name: 'git.ref', value: git?.ref ?? 'main' },
    { label: 'Access token', name: 'git.credential', value: git?.credential, placeholder: 'STEPS_TOKEN', hint: 'The name of a secret of the organization, for a private repository.' },
  ].map(field);
  const given = field({ label: 'Steps', name: 'steps', type: 'textarea', rows: 12, value: JSON.stringify(steps ?? EXAMPLE, null, 2), hint: 'A JSON list, as in the API.', spellcheck: 'false' });
  const choose = () => {
    for (const one of ofGit) one.hidden = source.value() !== 'git';
    given.hidden = source.value() === 'git';
  };
  source.input.addEventListener('input', choose);
  choose();
  return [{ label: 'Name', name: 'name', value: name, required: true, placeholder: 'tools', hint: 'Pipelines write name/step@version.' }, source, ...ofGit, given];
}

export function registryBody({ name, source, steps, ...rest }) {
  if (source === 'git') return { name, git: { url: rest['git.url'] ?? '', ref: rest['git.ref'] ?? '', credential: rest['git.credential'] ?? null } };
  try {
    return { name, steps: JSON.parse(steps ?? '[]') };
  } catch (error) {
    throw Object.assign(error, { errors: [{ field: 'steps', message: `is no JSON: ${error.message}` }] });
  }
}
