// Asks before an action: explains it, shows any fields, and confirms the result.

import { h } from '../lib/dom.js';
import { inWords } from '../lib/api.js';
import { button } from './button.js';
import { dialog } from './dialog.js';
import { field, formDialog } from './form.js';
import { toast } from './notice.js';

// `fields` as for field(); `send(values)` acts; `done` is the confirmation. `then` gets the answer, or undefined if the
// dialog was closed.
export async function ask({ title, text, fields = [], label, kind, send, done, wide }, then = () => {}) {
  const answer = await formDialog({
    title, wide, intro: text ? h('p', null, text) : null,
    fields: fields.map((one) => (one instanceof Node || !one ? one : field(one))),
    submit: { label, ...(kind ? { kind } : {}) },
    onSubmit: async (values) => (await send(values)) ?? true,
  });
  if (answer && done) toast(typeof done === 'function' ? done(answer) : done);
  try {
    await then(answer);
  } catch (error) {
    if (error.name !== 'AbortError') dialog({ title: 'This did not work', body: h('p', { role: 'alert' }, inWords(error)) });
  }
}

// A button that asks. `question` is called when it is pressed.
export function asking(look, question, then) {
  return button({ ...look, onClick: () => { ask(question(), then); } });
}
