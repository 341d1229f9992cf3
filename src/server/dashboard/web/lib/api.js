// Requests to the server. Paths are below the organization's; `root` takes whole paths. A refusal becomes an ApiError.

import { pauseAfter } from './backoff.js';
import { correctClock } from './time.js';

const BASE = '/api/v1/organizations/';
// A write whose response was lost is sent again; its Idempotency-Key ensures that it happens once.
const RETRY_MILLISECONDS = 600;

let organization = null;

export function useOrganization(id) {
  organization = id;
}

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the server answered ${status}`);
    this.name = 'ApiError';
    this.status = status;
    this.problem = problem;
    this.code = problem.code ?? null;
    this.detail = this.message;
    this.errors = problem.errors ?? [];
    this.holder = problem.holder ?? null;
    this.retryAfterSeconds = problem.retryAfterSeconds ?? null;
  }
}

// The text for any error: the server's detail, or why there is none.
export function inWords(error) {
  if (error instanceof ApiError) return sentence(error.detail);
  if (error?.name === 'AbortError') return 'Cancelled.';
  if (error instanceof TypeError) return 'The server cannot be reached. Check your connection and try again.';
  return sentence(String(error?.message ?? error));
}

export const get = (path, options) => request('GET', below(path), undefined, options);
export const post = (path, body, options) => request('POST', below(path), body ?? {}, options);
export const put = (path, body, options) => request('PUT', below(path), body, options);
export const patch = (path, body, options) => request('PATCH', below(path), body, options);
export const del = (path, body, options) => request('DELETE', below(path), body, options);
// The response itself, for logs, which are read as they arrive.
export const open = (path, options) => send('GET', below(path), undefined, options);

export const root = {
  get: (path, options) => request('GET', path, undefined, options),
  post: (path, body, options) => request('POST', path, body ?? {}, options),
  del: (path, body, options) => request('DELETE', path, body, options),
};

// 'a', 'b c' → '/a/b%20c'
export function path(...segments) {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('');
}

export const environmentPath = (pipelineId, envName, ...rest) =>
  path('pipelines', pipelineId, 'ephemeral-environments', envName, ...rest);

export function withQuery(address, query) {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))
    .filter(([, value]) => value !== undefined && value !== null && value !== '');
  return pairs.length === 0 ? address : `${address}?${new URLSearchParams(pairs)}`;
}

export function streamAddress(query) {
  return withQuery(below('/events/stream'), query);
}

// The items of a list, read page by page, at most `most`.
export async function all(address, { query, signal, most = 500 } = {}) {
  const items = [];
  for (;;) {
    const page = await get(address, { query: { ...query, limit: 100, offset: items.length }, signal });
    items.push(...page.data);
    if (page.data.length < 100 || items.length >= most) return items;
  }
}

function below(address) {
  return BASE + encodeURIComponent(organization) + address;
}

async function request(method, address, body, options = {}) {
  const answer = await send(method, address, body, options);
  if (answer.status === 204 || answer.status === 304) return { status: answer.status };
  const parsed = await answer.json();
  return { ...parsed, status: answer.status, etag: answer.headers.get('etag') };
}

async function send(method, address, body, { query, signal, headers } = {}) {
  const all = { Accept: 'application/json', ...headers };
  if (body !== undefined && method !== 'GET') all['Content-Type'] = 'application/json';
  if (method === 'POST') all['Idempotency-Key'] ??= newKey();
  const init = { method, headers: all, signal, credentials: 'same-origin', cache: 'no-store' };
  if (all['Content-Type']) init.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(withQuery(address, query), init);
  } catch (error) {
    if (method !== 'POST' || error.name === 'AbortError') throw error;
    await new Promise((resolve) => setTimeout(resolve, pauseAfter(1, RETRY_MILLISECONDS, RETRY_MILLISECONDS)));
    answer = await fetch(withQuery(address, query), init);
  }
  correctClock(answer.headers.get('date'));
  if (answer.ok || answer.status === 304) return answer;
  const error = new ApiError(answer.status, await answer.json().catch(() => ({})));
  // A wrong password is also a 401, but does not end a sign-in.
  if (answer.status === 401 && error.code !== 'invalid_credentials') {
    window.dispatchEvent(new CustomEvent('signed-out', { detail: error }));
  }
  throw error;
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
