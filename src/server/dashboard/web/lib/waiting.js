// Keeps this tab's places in queues: the server drops a place that is not polled for a minute. Uses long polls rather
// than timers, which browsers slow down in hidden tabs.

import { get } from './api.js';
import { pauseAfter } from './backoff.js';

const STORED = 'waiting';
const WAIT_SECONDS = 40;
// Each uses one of the few connections that a browser opens to a server.
const LONG_MOST = 2;
// For the other places: within the server's minute even if a timer is late.
const POLL_MILLISECONDS = 20_000;
// Well within the server's minute.
const RETRY_FIRST_MILLISECONDS = 2000;
const RETRY_MOST_MILLISECONDS = 20_000;

const kept = new Map();

// told(session, address) is called when the session has the lock or has lost its place.
let told = () => {};

export function whenDecided(fn) {
  told = fn;
}

// address: the session's path below the organization.
export function keepPlace(address, sessionId) {
  if (kept.has(sessionId)) return;
  const controller = new AbortController();
  kept.set(sessionId, { address, controller });
  store();
  keep(address, sessionId, controller.signal);
}

export function leavePlace(sessionId) {
  kept.get(sessionId)?.controller.abort();
  kept.delete(sessionId);
  store();
}

export function leaveAllPlaces() {
  for (const sessionId of [...kept.keys()]) leavePlace(sessionId);
}

// Called when the page is left; it resumes if the browser shows it again.
export function pausePlaces() {
  for (const { controller } of kept.values()) controller.abort();
  kept.clear();
}

// Called after a reload of the page.
export function resumePlaces() {
  try {
    for (const [address, sessionId] of JSON.parse(sessionStorage.getItem(STORED) ?? '[]')) keepPlace(address, sessionId);
  } catch {
    // Without storage nothing can be resumed.
  }
}

async function keep(address, sessionId, signal) {
  let etag = null;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = etag ? { 'If-None-Match': etag } : {};
      const long = [...kept.keys()].indexOf(sessionId) < LONG_MOST;
      const answer = await get(address, { query: etag && long ? { waitSeconds: WAIT_SECONDS } : {}, headers, signal });
      failures = 0;
      if (!long) await pause(POLL_MILLISECONDS);
      if (answer.status === 304) continue;
      etag = answer.etag;
      if (answer.data.lockStatus !== 'queued') {
        leavePlace(sessionId);
        told(answer.data, address);
      }
    } catch (error) {
      if (error.status === 404 || error.status === 401) leavePlace(sessionId);
      else {
        failures += 1;
        await pause(pauseAfter(failures, RETRY_FIRST_MILLISECONDS, RETRY_MOST_MILLISECONDS));
      }
    }
  }
}

function store() {
  try {
    sessionStorage.setItem(STORED, JSON.stringify([...kept].map(([sessionId, { address }]) => [address, sessionId])));
  } catch {
    // Only needed for reloads.
  }
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
