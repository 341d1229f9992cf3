// Actions on environments. The code with their forms is loaded on first use, so that the board appears sooner.

import { atLeast, isMe, may } from '../lib/session.js';

const later = (name) => async (...given) => (await import('./claiming.js'))[name](...given);

export const addEnvironment = later('addEnvironment');
export const claim = later('claim');
export const claimAny = later('claimAny');
export const deploy = later('deploy');
export const extend = later('extend');
export const forceClaim = later('forceClaim');
export const joinQueue = later('joinQueue');
export const leaveQueue = later('leaveQueue');
export const release = later('release');

// The list does not contain the role that a force-claim needs; then the server decides.
export const mayForce = (environment) => may('claim') && (!environment.configuration || atLeast(environment.configuration.forceClaimRole));
export const mayRelease = (lock) => Boolean(lock) && (isMe(lock.user) ? may('claim') : may('release-any'));
