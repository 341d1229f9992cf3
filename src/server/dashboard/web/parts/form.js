// Fields and forms. The server's faults appear at their fields.

import { h, replace } from '../lib/dom.js';
import { inWords, sentence } from '../lib/api.js';
import { live } from '../lib/live.js';
import { button, during, NOT_CONNECTED } from './button.js';
import { dialog } from './dialog.js';

let count = 0;

// type: a type of <input>, 'textarea' or 'checkbox'; with options ([[value, label]] or [value]) it is a select.
export function field({ label, name, options, type = options ? 'select' : 'text', value, hint, required, ...attributes }) {
  const id = `field-${++count}`;
  const props = { id, name, required, 'aria-describedby': `${id}-hint ${id}-fault`, ...attributes };
  const fault = h('span', { class: 'fault', id: `${id}-fault` });
  const hintElement = h('span', { class: 'hint', id: `${id}-hint` }, hint);
  const input = inputOf(type, value, options, props);
  const element = type === 'checkbox'
    ? h('div', { class: 'field check' }, h('label', { for: id }, input, h('span', null, label)), hintElement, fault)
    : h('div', { class: 'field' }, h('label', { for: id }, label), input, hintElement, fault);
  element.input = input;
  element.fieldName = name;
  element.value = () => (type === 'checkbox' ? input.checked : type === 'number' ? (input.value === '' ? null : Number(input.value)) : input.value);
  element.error = (text) => {
    replace(fault, text);
    if (text) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  return element;
}

function inputOf(type, value, options, props) {
  if (type === 'textarea') return h('textarea', { rows: 3, ...props, value: value ?? '' });
  if (type === 'checkbox') return h('input', { ...props, type, checked: Boolean(value) });
  if (type !== 'select') return h('input', { ...props, type, value: value ?? '', autocomplete: props.autocomplete ?? 'off' });
  const select = h('select', props, options.map((option) => {
    const [key, label] = [option].flat().length > 1 ? option : [option, option];
    return h('option', { value: key }, label);
  }));
  select.value = value ?? [options[0]].flat()[0];
  return select;
}

// The values by name, without empty texts, so that the server's defaults apply.
export function values(fields) {
  const pairs = fields.map((one) => [one.fieldName, one.value()]).filter(([, value]) => value !== '' && value !== null);
  return Object.fromEntries(pairs);
}

// 'size:large zone:eu' → {size: 'large', zone: 'eu'}
export function labelsFrom(text) {
  return Object.fromEntries((text ?? '').split(/[\s,]+/).filter(Boolean).map((pair) => [pair.split(':')[0], pair.split(':').slice(1).join(':')]));
}

// Shows a server error at the fields it names, and the rest in `place`.
export function showFaults(fields, place, error) {
  const rest = [];
  for (const { field: name, message } of error?.errors ?? []) {
    const found = fields.find((one) => one.fieldName === name || /^[.[]/.test(name.slice(one.fieldName.length)) && name.startsWith(one.fieldName));
    if (found) found.error(sentence(message));
    else rest.push(sentence(`${name} ${message}`));
  }
  const shown = (error?.errors?.length ?? 0) > 0 ? rest.join(' ') : error ? inWords(error) : '';
  replace(place, shown);
  fields.find((one) => one.input?.getAttribute('aria-invalid'))?.input.focus();
}

// form({fields, submit: {label, kind, busyLabel}, onSubmit: async (values) => …, extra: nodes beside the button})
export function form({ fields, submit, onSubmit, extra, class: name = 'form', offline = false }) {
  const fault = h('p', { class: 'fault', role: 'alert' });
  const send = button({ kind: 'primary', type: 'submit', ...submit });
  const text = send.button.lastChild;
  const inputs = fields.flat().filter((one) => one?.fieldName);
  const element = h('form', { class: name, novalidate: true }, fields, fault, h('div', { class: 'row' }, send, extra));
  element.addEventListener('submit', async (event) => {
    event.preventDefault();
    for (const one of inputs) one.error('');
    const missing = inputs.filter((one) => one.input.required && one.input.value.trim() === '');
    for (const one of missing) one.error('Please fill this in.');
    if (missing.length > 0) return missing[0].input.focus();
    let failed = null;
    await during(send.button, text, submit.busyLabel, fault, async () => {
      if (!offline && live.state().status === 'lost') throw new Error(NOT_CONNECTED);
      try {
        await onSubmit(values(inputs));
      } catch (error) {
        failed = error;
        throw error;
      }
    });
    if (failed) showFaults(inputs, fault, failed);
  });
  return element;
}

// A form in a dialog that closes on success. Resolves with the result of onSubmit, or undefined if it was closed.
export function formDialog({ title, intro, fields, submit, onSubmit, wide }) {
  return new Promise((resolve) => {
    let result;
    const cancel = h('button', { type: 'button', class: 'button quiet', on: { click: () => shown.close() } }, 'Cancel');
    const body = form({
      fields, submit, extra: cancel,
      onSubmit: async (entered) => {
        result = await onSubmit(entered);
        shown.close();
      },
    });
    const shown = dialog({ title, body: [intro, body], wide, onClose: () => resolve(result) });
  });
}
