// The event stream: one connection for the page, its state, and its listeners. Uses fetch instead of EventSource, to
// distinguish refusals from lost connections, and to see the server's comments on a quiet stream.

import { ApiError, streamAddress } from './api.js';
import { pauseAfter } from './backoff.js';
import { now } from './time.js';

// By default, the server sends a comment every 15 s. After a longer silence the connection may be dead: another one is
// tried, and the state becomes 'lost' only if that fails, too.
const SILENCE_MILLISECONDS = 45_000;
const SILENCE = 'silence';
const RETRY_FIRST_MILLISECONDS = 500;
const RETRY_MOST_MILLISECONDS = 5_000;
// Browsers open six connections to one server, so hidden tabs close theirs. Long enough for a glance elsewhere, short
// enough for switching through many tabs.
const HIDDEN_MILLISECONDS = 3_000;

const listeners = { event: new Set(), state: new Set() };
const followers = new Set();
let state = { status: 'connecting', since: Date.now() };
let lastId = null;
let controller = null;
let hiddenTimer = null;
let wake = null;
// Whether pages were read before the first connection and may have missed events.
let isUnsure = false;

export const live = {
  state: () => state,

  // Kinds: 'event' (each one), 'state' ({status: 'connecting'|'live'|'lost', since}). Returns a function that
  // unsubscribes.
  on(kind, fn) {
    listeners[kind].add(fn);
    return () => listeners[kind].delete(fn);
  },

  // Calls fn(event) for matching events. Types may end with '.*'. After missed events it calls fn({type: 'reset'}):
  // read everything again.
  follow(filter, fn) {
    const follower = { filter, fn };
    followers.add(follower);
    return () => followers.delete(follower);
  },

  // Resolves when the stream is open, so that later reads miss nothing. If it cannot be opened now, followers get a
  // 'reset' once it is.
  opened() {
    if (state.status === 'connecting' && controller) {
      return new Promise((resolve) => {
        const stop = live.on('state', () => (stop(), resolve()));
      });
    }
    isUnsure ||= state.status !== 'live';
    return Promise.resolve();
  },

  start() {
    if (!document.hidden) open();
    document.addEventListener('visibilitychange', seen);
    addEventListener('online', hurry);
  },

  stop() {
    document.removeEventListener('visibilitychange', seen);
    removeEventListener('online', hurry);
    clearTimeout(hiddenTimer);
    controller?.abort();
    controller = null;
    lastId = null;
    become('connecting');
  },
};

function hurry() {
  wake?.();
}

function seen() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      controller?.abort();
      controller = null;
    }, HIDDEN_MILLISECONDS);
  } else {
    open();
    hurry();
  }
}

function open() {
  if (controller) return;
  controller = new AbortController();
  connect(controller);
}

async function connect(mine) {
  let failures = 0;
  while (!mine.signal.aborted) {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    let isOpen = false;
    mine.signal.addEventListener('abort', abort);
    try {
      await read(attempt, () => {
        isOpen = true;
        failures = 0;
      });
    } catch (error) {
      if (isOpen && attempt.signal.reason === SILENCE) continue;
      if (error.status === 401 && !mine.signal.aborted) {
        window.dispatchEvent(new CustomEvent('signed-out', { detail: error }));
        return;
      }
    } finally {
      mine.signal.removeEventListener('abort', abort);
      attempt.abort();
    }
    if (mine.signal.aborted) return;
    if (state.status !== 'lost') become('lost');
    failures += 1;
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, pauseAfter(failures, RETRY_FIRST_MILLISECONDS, RETRY_MOST_MILLISECONDS));
    });
  }
}

async function read(attempt, began) {
  let silence = setTimeout(() => attempt.abort(SILENCE), SILENCE_MILLISECONDS);
  try {
    const headers = { Accept: 'text/event-stream', ...(lastId ? { 'Last-Event-ID': lastId } : {}) };
    const answer = await fetch(streamAddress(), { headers, signal: attempt.signal, cache: 'no-store', credentials: 'same-origin' });
    if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => ({})));
    const isFirst = lastId === null;
    lastId ??= answer.headers.get('last-event-id');
    began();
    become('live');
    if (isFirst && isUnsure) tell({ type: 'reset' });
    isUnsure = false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => attempt.abort(SILENCE), SILENCE_MILLISECONDS);
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) take(block);
    }
  } finally {
    clearTimeout(silence);
  }
}

function take(block) {
  let type = 'message';
  let data = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('id: ')) lastId = line.slice(4);
    else if (line.startsWith('event: ')) type = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (data === '') return;
  if (type === 'reset') return tell({ type: 'reset' });
  try {
    tell(JSON.parse(data));
  } catch (error) {
    console.error(error); // A fault in one listener must not end the stream for the others.
  }
}

function tell(event) {
  for (const fn of listeners.event) guarded(fn, event);
  for (const { filter, fn } of followers) {
    if (event.type === 'reset' || fits(filter, event)) guarded(fn, event);
  }
}

function guarded(fn, argument) {
  try {
    fn(argument);
  } catch (error) {
    console.error(error);
  }
}

function fits(filter, event) {
  const { types, ...fields } = filter;
  if (types && !types.some((type) => type === event.type || (type.endsWith('.*') && event.type.startsWith(type.slice(0, -1))))) return false;
  return Object.entries(fields).every(([name, value]) => value === undefined || value === null || event[name] === value);
}

function become(status) {
  state = { status, since: now() };
  for (const fn of listeners.state) guarded(fn, state);
}
