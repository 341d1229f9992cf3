// The live log of a deployment: lines as they arrive, of which only the visible ones are drawn, with a search.

import { open } from '../lib/api.js';
import { pauseAfter } from '../lib/backoff.js';
import { h, replace, setClass, setText } from '../lib/dom.js';
import { live } from '../lib/live.js';
import { exactly } from '../lib/time.js';
import { windowed } from '../lib/window.js';
import { iconButton } from './button.js';
import { icon } from './icon.js';

// A browser can hold this many easily; the whole log can be downloaded.
const LINES_MOST = 50_000;
const LINE_PIXELS = 20;
const RETRY_FIRST_MILLISECONDS = 2000;
const RETRY_MOST_MILLISECONDS = 20_000;
const COLOURS = /\u001b\[[0-9;?]*[A-Za-z]|\r(?!$)/g;

// Stops with `signal`.
export function log({ deploymentId, signal }) {
  const address = `/deployments/${deploymentId}/logs`;
  let lines = [];
  let next = 0;
  let isFollowing = true;
  let section = null;
  let matches = [];
  let match = 0;
  let term = '';

  const body = h('div', { class: 'log-body' });
  const scroller = h('div', { class: 'log-lines', role: 'log', 'aria-label': 'Log', 'aria-live': 'off', tabindex: 0 }, body);
  const status = h('span', { class: 'quiet small', role: 'status' }, 'Reading the log…');
  const search = h('input', { type: 'search', 'aria-label': 'Search the log', placeholder: 'Search the log', autocomplete: 'off', spellcheck: 'false' });
  const found = h('span', { class: 'quiet small nowrap', role: 'status' });
  const follow = h('button', { type: 'button', class: 'button small', 'aria-pressed': 'true' }, icon('down'), h('span', null, 'Follow'));
  const download = h('a', { class: 'button small', download: `${deploymentId}.log` }, 'Download');
  const tools = h('div', { class: 'row' }, search, found, iconButton({ label: 'Previous match', icon: 'up', onClick: () => jump(-1) }), iconButton({ label: 'Next match', icon: 'down', onClick: () => jump(1) }), follow, download);
  const element = h('section', { class: 'log' }, h('div', { class: 'log-tools' }, status, tools), scroller);
  scroller.hidden = tools.hidden = true;

  const view = windowed({
    scroller, body, rowHeight: () => LINE_PIXELS, keyOf: (line) => line.key,
    make: () => h('div', { class: 'log-line' }, h('span', { class: 'log-number' }), h('span', { class: 'log-text' })),
    fill: (row, line, at) => {
      const [number, text] = row.children;
      const isFound = matches[match] === at && term !== '';
      setClass(row, `log-line${line.heading ? ' heading' : ''}${isFound ? ' found' : ''}`);
      setText(number, line.heading ? '' : String(line.number + 1));
      row.title = line.at ? exactly(line.at) : '';
      if (row.shown === line && row.term === term) return;
      row.shown = line;
      row.term = term;
      replace(text, term ? marked(line.text, term) : line.text || ' ');
    },
  });

  function take(entry) {
    next = entry.line + 1;
    const name = entry.stage ? `${entry.stage} / ${entry.step}${entry.attempt > 1 ? `, attempt ${entry.attempt}` : ''}` : null;
    if (name !== section) {
      section = name;
      if (name) lines.push({ key: `h${entry.line}`, heading: true, text: name });
    }
    lines.push({ key: entry.line, number: entry.line, at: entry.at, text: entry.text.replace(COLOURS, '') });
  }

  function drawn() {
    if (lines.length > LINES_MOST) lines = lines.slice(-LINES_MOST);
    view.set(lines);
    scroller.hidden = tools.hidden = lines.length === 0;
    if (term) look();
    if (isFollowing) requestAnimationFrame(() => { scroller.scrollTop = scroller.scrollHeight; });
  }

  let failures = 0;
  async function read() {
    const answer = await open(address, { query: { format: 'json', follow: true, offset: next }, signal, headers: { Accept: '*/*' } });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    setText(status, 'Live');
    failures = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split('\n');
      rest = parts.pop();
      for (const part of parts) if (part) take(JSON.parse(part));
      drawn();
    }
  }

  let running = false;
  async function run() {
    if (running) return;
    running = true;
    while (!signal.aborted) {
      try {
        await read();
        setText(status, next === 0 ? 'Nothing was written to the log.' : `${next} lines`);
        break;
      } catch (error) {
        if (signal.aborted || error.status) {
          setText(status, error.detail ?? '');
          break;
        }
        failures += 1;
        setText(status, 'Connection lost; the log goes on when it is back.');
        await new Promise((resolve) => setTimeout(resolve, pauseAfter(failures, RETRY_FIRST_MILLISECONDS, RETRY_MOST_MILLISECONDS)));
      }
    }
    running = false;
  }

  function look() {
    matches = [];
    if (term) lines.forEach((line, at) => { if (!line.heading && line.text.toLowerCase().includes(term)) matches.push(at); });
    match = Math.min(match, Math.max(0, matches.length - 1));
    setText(found, term === '' ? '' : matches.length === 0 ? 'not found' : `${match + 1} of ${matches.length}`);
    view.later();
  }
  function jump(step) {
    if (matches.length === 0) return;
    match = (match + step + matches.length) % matches.length;
    setFollow(false);
    look();
    view.reveal(matches[match], LINE_PIXELS * 3);
  }
  function setFollow(on) {
    isFollowing = on;
    follow.setAttribute('aria-pressed', String(on));
    if (on) scroller.scrollTop = scroller.scrollHeight;
  }
  search.addEventListener('input', () => {
    term = search.value.toLowerCase();
    match = 0;
    look();
    if (matches.length > 0) jump(0);
  });
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') jump(event.shiftKey ? -1 : 1);
  });
  follow.addEventListener('click', () => setFollow(!isFollowing));
  // Scrolling up stops following, so that lines stay in place.
  scroller.addEventListener('wheel', (event) => event.deltaY < 0 && setFollow(false), { passive: true });
  scroller.addEventListener('touchmove', () => setFollow(scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - LINE_PIXELS), { passive: true });

  // A retried stage appends to a finished log.
  const stop = live.follow({ types: ['stage.started', 'stage.retried', 'deployment.started'], deploymentId }, () => run());
  signal.addEventListener('abort', () => { stop(); view.stop(); });
  download.href = `/api/v1/organizations/${encodeURIComponent(location.pathname.split('/')[1])}${address}`;
  run();
  return element;
}

function marked(text, term) {
  const parts = [];
  const lower = text.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(term); at >= 0; at = lower.indexOf(term, from)) {
    parts.push(text.slice(from, at), h('mark', null, text.slice(at, at + term.length)));
    from = at + term.length;
  }
  return [...parts, text.slice(from)];
}
