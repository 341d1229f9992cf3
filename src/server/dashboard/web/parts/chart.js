// Charts as SVG with axes and units, and the same figures as a table for those who cannot see them.

import { h, replace, svg } from '../lib/dom.js';
import { table } from './table.js';

const HEIGHT = 200;
const LEFT = 36;
const BOTTOM = 24;
const TOP = 10;
// The width that a label needs.
const LABEL_PIXELS = 76;

// chart({title, unit: 'minutes', labels: ['Mon', …], series: [{name, values: [number|null]}], max, format: (value) =>
// text}): bars, side by side for several series.
export function chart({ title, unit, labels, series, max, format = (value) => String(value) }) {
  const values = series.flatMap((one) => one.values).filter((value) => value !== null);
  const top = max ?? niceCeiling(Math.max(0, ...values));
  const picture = h('div', { class: 'chart-picture' });
  // Drawn at its actual width, so that its text has the normal size.
  new ResizeObserver(([{ contentRect }]) => replace(picture, drawn(contentRect.width, { title, unit, labels, series, top, format }))).observe(picture);
  return h('figure', { class: 'chart' },
    h('figcaption', null, h('strong', null, title), h('span', { class: 'quiet' }, unit), legend(series)),
    picture, figures(title, labels, series, format));
}

function drawn(width, { title, unit, labels, series, top, format }) {
  const step = (width - LEFT) / Math.max(1, labels.length);
  const x = (place) => LEFT + (place + 0.5) * step;
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const every = Math.ceil(LABEL_PIXELS / step);
  return svg('svg', { width, height: HEIGHT, role: 'img', 'aria-label': `${title}, ${unit}. The figures are in the table below.` },
    [0, 0.25, 0.5, 0.75, 1].map((part) => [
      svg('line', { class: part === 0 ? 'axis' : 'grid', x1: LEFT, x2: width, y1: y(top * part), y2: y(top * part) }),
      svg('text', { class: 'tick', x: LEFT - 8, y: y(top * part) + 4, 'text-anchor': 'end' }, format(top * part)),
    ]),
    labels.map((label, place) => (place % every === 0 && x(place) + LABEL_PIXELS / 2 < width
      ? svg('text', { class: 'tick', x: x(place), y: HEIGHT - 6, 'text-anchor': place === 0 ? 'start' : 'middle', dx: place === 0 ? -step / 2 : 0 }, label) : null)),
    series.map((one, place) => bars(one, place, { x, y, step, labels, series, format, unit })));
}

function bars({ name, values }, place, { x, y, step, labels, series, format, unit }) {
  const width = Math.max(1, Math.min(40, (step * 0.7) / series.length));
  return values.map((value, at) => (value === null ? null
    : svg('rect', { class: `tone-${place}`, x: x(at) - (width * series.length) / 2 + place * width, y: y(value), width, height: Math.max(0, y(0) - y(value)), rx: Math.min(2, width / 4) },
      svg('title', null, `${labels[at]}: ${name} ${format(value)} ${unit}`))));
}

function legend(series) {
  if (series.length < 2) return null;
  return h('span', { class: 'legend' }, series.map(({ name }, place) => h('span', null, h('i', { class: `tone-${place}` }), name)));
}

function figures(title, labels, series, format) {
  return h('details', null, h('summary', null, 'Figures as a table'), table({
    caption: title, rows: labels.map((label, at) => ({ label, at })),
    columns: [['When', 'label'], ...series.map(({ name, values }) => [name, ({ at }) => (values[at] === null ? '–' : format(values[at]))])],
  }));
}

// The top of an axis with four parts: each label has at most one decimal.
export function niceCeiling(value) {
  if (value <= 0) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12].map((factor) => factor * power).find((nice) => nice >= value);
}
