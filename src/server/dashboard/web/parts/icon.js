// Our own icons: strokes on a 16 by 16 grid, in the text colour. They are decorative; the word beside them has the
// meaning.

import { svg } from '../lib/dom.js';

const PATHS = {
  lock: 'M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5',
  free: 'M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10',
  check: 'M3.5 8.5l3 3l6-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  clock: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2.2 1.3',
  spin: 'M8 2.5a5.5 5.5 0 1 1-5.5 5.5',
  dash: 'M4 8h8',
  ban: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M4.2 4.2l7.6 7.6',
  dot: 'M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3',
  alert: 'M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.2',
  hand: 'M4.5 2.5h7M4.5 13.5h7M5.5 2.5v2.2L8 8l2.5-3.3V2.5M5.5 13.5v-2.2L8 8l2.5 3.3v2.2',
  approve: 'M3 3h10v10H3zM5.5 8l2 2l3.5-4',
  swap: 'M3 6h9l-2.5-2.5M13 10H4l2.5 2.5',
  play: 'M5 3.5l7 4.5l-7 4.5z',
  stop: 'M4.5 4.5h7v7h-7z',
  board: 'M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6',
  rocket: 'M8 13.5V6M4.5 9.5L8 6l3.5 3.5M3 2.5h10',
  list: 'M5.5 4.5h8M5.5 8h8M5.5 11.5h8M2.5 4.5h.1M2.5 8h.1M2.5 11.5h.1',
  chart: 'M2.5 13.5h11M4.5 11V7M8 11V3.5M11.5 11V8.5',
  key: 'M5.5 8a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M7.4 8.7l5.1-5.2M10.5 5.5l2 2',
  shield: 'M8 2l5 2v4c0 3-2 5-5 6c-3-1-5-3-5-6V4z',
  box: 'M2.5 5L8 2.5L13.5 5v6L8 13.5L2.5 11zM2.5 5L8 7.5L13.5 5M8 7.5v6',
  hook: 'M8 2.5v6a2.5 2.5 0 1 1-5 0M8 8.5a2.5 2.5 0 0 0 5 0M11.5 4L13 2.5',
  people: 'M6 3a2.2 2.2 0 1 0 0 4.4a2.2 2.2 0 1 0 0-4.4M2 13c0-2.4 1.8-4 4-4s4 1.6 4 4M10.5 3.3a2 2 0 0 1 0 3.8M11.5 9.2c1.6.4 2.5 1.8 2.5 3.8',
  person: 'M8 2.5a2.7 2.7 0 1 0 0 5.4a2.7 2.7 0 1 0 0-5.4M3 13.5c0-2.8 2.2-4.4 5-4.4s5 1.6 5 4.4',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.3 10.3l3.2 3.2',
  menu: 'M2.5 4h11M2.5 8h11M2.5 12h11',
  up: 'M4 10l4-4l4 4',
  down: 'M4 6l4 4l4-4',
  right: 'M6 4l4 4l-4 4',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  again: 'M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3',
  plus: 'M8 3v10M3 8h10',
  out: 'M6.5 2.5h-4v11h4M6 8h7.5M11 5.5L13.5 8L11 10.5',
  link: 'M6.5 9.5l3-3M7 5l1.5-1.5a2.5 2.5 0 0 1 4 4L11 9M9 11l-1.5 1.5a2.5 2.5 0 0 1-4-4L5 7',
  help: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M6.3 6.4a1.8 1.8 0 1 1 2.4 1.8c-.5.2-.7.5-.7 1M8 11.2v.1',
  queue: 'M3 4.5h10M3 8h7M3 11.5h4',
};

export function icon(name, size = 16) {
  return svg('svg', { class: `icon icon-${name}`, viewBox: '0 0 16 16', width: size, height: size, 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: PATHS[name] ?? PATHS.dot }));
}

// The product's logo: two gates of a canal lock.
export function mark(size = 24) {
  return svg('svg', { class: 'mark', viewBox: '0 0 24 24', width: size, height: size, 'aria-hidden': 'true' },
    svg('rect', { x: 1, y: 1, width: 22, height: 22, rx: 6 }),
    svg('path', { d: 'M6 6.5l6 5.5l6-5.5M6 12.5l6 5.5l6-5.5' }));
}
