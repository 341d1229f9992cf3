// The order of environments, their grouping by state, and filters.

export const ORDERS = {
  turn: 'Mine first',
  name: 'By name',
  held: 'Held longest',
  expiry: 'Expires next',
  queue: 'Longest queue',
};

export const COUNTED = {
  mine: ({ isMine }) => isMine,
  free: ({ lockStatus }) => lockStatus === 'unlocked',
  locked: ({ lockStatus }) => lockStatus === 'locked',
  waiting: ({ queueLength }) => queueLength > 0,
  resetting: ({ lockStatus }) => lockStatus === 'resetting',
  disabled: ({ lockStatus }) => lockStatus === 'disabled',
};

// Mine, locked with a queue, locked, resetting, free, disabled.
function turn({ isMine, lockStatus, queueLength }) {
  if (isMine) return 0;
  if (lockStatus === 'locked') return queueLength > 0 ? 1 : 2;
  return { resetting: 3, unlocked: 4, disabled: 5 }[lockStatus] ?? 6;
}

const byName = new Intl.Collator(undefined, { numeric: true }).compare;

// Locale-aware comparison is slow, so each environment's rank is computed once.
export function rank(environments) {
  environments.sort((a, b) => byName(a.envName, b.envName)).forEach((environment, at) => { environment.rank = at; });
}

const time = (text, otherwise) => (text ? Date.parse(text) : otherwise);

const KEYS = {
  turn,
  name: () => 0,
  held: ({ lock }) => time(lock?.claimedAt, Infinity),
  expiry: ({ lock }) => time(lock?.expiresAt, lock ? Number.MAX_SAFE_INTEGER : Infinity),
  queue: ({ queueLength }) => -queueLength,
};

export function compare(order, a, b) {
  const key = KEYS[order] ?? turn;
  const [left, right] = [key(a), key(b)];
  return left === right ? a.rank - b.rank : left < right ? -1 : 1;
}

export function haystack({ envName, lockStatus, lock, labels, currentDeployment }) {
  const parts = [envName, lockStatus === 'unlocked' ? 'free' : lockStatus, lock?.user.name, lock?.context, lock?.commitId,
    currentDeployment?.commitId, currentDeployment?.status, ...Object.entries(labels ?? {}).map(([key, value]) => `${key}:${value}`)];
  return parts.filter(Boolean).join(' ').toLowerCase();
}
