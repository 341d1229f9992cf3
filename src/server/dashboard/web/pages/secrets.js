// Secrets: their names and versions. Values are write-only.

import { ago, ask, asking, atEnd, del, empty, h, listPage, may, menu, orDash, path, pipelineField, post, put, quiet, withQuery } from '../parts/all.js';

const VALUE = { label: 'Value', name: 'value', type: 'textarea', required: true, hint: 'Never shown again, here or anywhere.', spellcheck: 'false' };
const DESCRIPTION = { label: 'Description', name: 'description' };

export async function show(context) {
  const manages = may('manage-secrets');
  const scope = await pipelineField(context.signal, 'all pipelines', 'For');
  return listPage(context, {
    title: 'Secrets', text: 'Steps find them as environment variables; their output is masked. Values are never shown.', address: '/secrets', id: ({ pipelineId, name }) => `${pipelineId}/${name}`,
    actions: (reload) => (manages ? asking({ label: 'Add secret', icon: 'plus', kind: 'primary' }, () => ({
      title: 'Add a secret', label: 'Add secret', send: (values) => post('/secrets', values), done: ({ data }) => `${data.name} is sealed`,
      fields: [
        { label: 'Name', name: 'name', required: true, placeholder: 'DATABASE_PASSWORD', hint: 'The environment variable in which steps find it.', spellcheck: 'false', class: 'mono' },
        VALUE, DESCRIPTION, { ...scope, hint: 'A secret of one pipeline wins over one of the same name for all.' },
      ],
    }), reload) : null),
    filters: [{ ...scope, label: 'Pipeline' }],
    columns: (reload) => [
      ['Name', ({ name }) => h('span', { class: 'mono strong' }, name)], ['For', ({ pipelineId }) => pipelineId ?? quiet('all pipelines'), 'nowrap'],
      ['Description', orDash('description')], ['Version', 'version', 'number'], ['Changed', ago('updatedAt')],
      ...(manages ? [['', (secret) => atEnd(menu({ label: `Actions for ${secret.name}`, items: () => actions(secret, reload) }))]] : []),
    ],
    empty: empty({ icon: 'key', title: 'No secrets yet', text: 'Maintainers add the passwords and keys that steps need. They are sealed on the disk and masked in logs.' }),
    follow: ['secret.*'],
  });
}

function actions({ name, pipelineId, description }, reload) {
  const address = withQuery(path('secrets', name), { pipelineId });
  const item = (label, icon, question) => ({ label, icon, danger: question.kind === 'danger', onClick: () => ask(question, reload) });
  return [
    item('New value…', 'key', {
      title: `New value for ${name}`, text: 'Deployments that run keep the value they began with; later ones get this one.', fields: [VALUE],
      label: 'Set value', send: (values) => put(address, values), done: ({ data }) => `${name} is at version ${data.version}`,
    }),
    item('Change description…', 'list', {
      title: `Description of ${name}`, fields: [{ ...DESCRIPTION, value: description }], label: 'Save', send: (values) => put(address, { description: '', ...values }),
    }),
    null,
    item(`Delete ${name}…`, 'cross', {
      title: `Delete ${name}?`, text: 'Steps that need it will fail. The value cannot be brought back.', label: `Delete ${name}`, kind: 'danger', send: () => del(address), done: `${name} is deleted`,
    }),
  ];
}
