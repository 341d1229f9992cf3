// The signed-in user and the permissions of their role. Only for hiding actions: the server checks every request.

import { root, useOrganization } from './api.js';

const ROLES = ['viewer', 'developer', 'maintainer', 'admin'];
const LEAST_ROLE = {
  claim: 'developer',
  deploy: 'developer',
  analyse: 'developer',
  'release-any': 'maintainer',
  'raise-priority': 'maintainer',
  'manage-environments': 'maintainer',
  'manage-pipelines': 'maintainer',
  'manage-deployments': 'maintainer',
  approve: 'maintainer',
  'manage-secrets': 'maintainer',
  'manage-registries': 'maintainer',
  'manage-webhooks': 'admin',
  'manage-members': 'admin',
  'manage-tokens': 'admin',
};

let current = null;

// {organization: {id, name}, user: {userId, name, email}, role}, or null if nobody is signed in.
export function me() {
  return current;
}

export async function load() {
  current = (await root.get('/api/v1/whoami')).data;
  useOrganization(current.organization.id);
  return current;
}

export function forget() {
  current = null;
}

export function may(action) {
  return current !== null && atLeast(LEAST_ROLE[action] ?? 'admin');
}

// Whether the user's role includes this one.
export function atLeast(role) {
  return ROLES.indexOf(current?.role) >= ROLES.indexOf(role);
}

export function isMe(user) {
  return current !== null && user?.userId === current.user.userId;
}
