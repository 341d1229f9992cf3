// The environments of a pipeline, kept up to date: collects the names in events and reads them in one request.

import { get, path } from './api.js';
import { pauseAfter } from './backoff.js';
import { live } from './live.js';

// Including the request, a change appears well within 0.3 s, and 50 changes per second need ten requests.
const COLLECT_MILLISECONDS = 80;
const RETRY_FIRST_MILLISECONDS = 2000;
const RETRY_MOST_MILLISECONDS = 20_000;
// The server takes this many names in one request.
const NAMES_PER_REQUEST = 100;
// With more changed names than this, reading everything is cheaper.
const NAMES_MOST = 500;

// changed(names) is called after each read, with null if everything was read.
export async function watchEnvironments(pipelineId, { signal, changed }) {
  const address = `${path('pipelines', pipelineId)}/ephemeral-environments`;
  const known = new Map();
  let dirty = new Set();
  let everything = false;
  let reading = false;
  let failures = 0;
  let timer = null;

  const readAll = async () => {
    const { data } = await get(address, { signal });
    known.clear();
    for (const environment of data) known.set(environment.envName, environment);
  };
  const readSome = async (names) => {
    for (let at = 0; at < names.length; at += NAMES_PER_REQUEST) {
      const some = names.slice(at, at + NAMES_PER_REQUEST);
      const { data } = await get(address, { query: { envName: some }, signal });
      const found = new Map(data.map((environment) => [environment.envName, environment]));
      for (const name of some) {
        if (found.has(name)) known.set(name, found.get(name));
        else known.delete(name);
      }
    }
  };
  // One read at a time, so that an older response never replaces a newer one.
  const read = async () => {
    timer = null;
    if (reading || signal.aborted) return;
    reading = true;
    const names = [...dirty];
    const whole = everything || names.length > NAMES_MOST;
    dirty = new Set();
    everything = false;
    try {
      if (whole) await readAll();
      else await readSome(names);
      changed(whole ? null : names);
      failures = 0;
    } catch {
      // The connection is lost or the server is busy; missed changes are read on the next attempt.
      if (whole) everything = true;
      for (const name of names) dirty.add(name);
      if (!signal.aborted) {
        failures += 1;
        timer = setTimeout(read, pauseAfter(failures, RETRY_FIRST_MILLISECONDS, RETRY_MOST_MILLISECONDS));
      }
    } finally {
      reading = false;
      if (timer === null && (dirty.size > 0 || everything)) timer = setTimeout(read, COLLECT_MILLISECONDS);
    }
  };
  const mark = (name) => {
    if (name === null) everything = true;
    else dirty.add(name);
    if (!reading) timer ??= setTimeout(read, COLLECT_MILLISECONDS);
  };

  const stop = live.follow({ pipelineId }, (event) => {
    if (event.type === 'reset') mark(null);
    else if (event.envName) mark(event.envName);
  });
  signal.addEventListener('abort', () => {
    stop();
    clearTimeout(timer);
  });
  await readAll();
  return { known, refresh: (names) => names.forEach(mark) };
}
