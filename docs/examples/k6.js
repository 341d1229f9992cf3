// Durable cycles with k6: each virtual user claims and releases a separate environment.
//
//   k6 run --vus 16 --duration 30s docs/examples/k6.js
//
// Needs LOCKKEEPER_TOKEN, and environments load-1, load-2, … (as many as users) in the pipeline `load`.
import http from 'k6/http';
import { check } from 'k6';

const server = __ENV.LOCKKEEPER_URL || 'http://127.0.0.1:8080';
const environments = `${server}/api/v1/organizations/acme/pipelines/load/ephemeral-environments`;
const headers = { Authorization: `Bearer ${__ENV.LOCKKEEPER_TOKEN}`, 'Content-Type': 'application/json' };

export default function () {
  const environment = `${environments}/load-${__VU}`;
  const claimed = http.post(`${environment}/sessions`, '{"ttlSeconds": 10}', { headers, tags: { name: 'claim' } });
  const released = http.del(`${environment}/lock`, null, { headers, tags: { name: 'release' } });
  check(claimed, { claimed: (answer) => answer.status === 201 });
  check(released, { released: (answer) => answer.status === 200 });
}
