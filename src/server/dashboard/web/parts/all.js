// Re-exports what most pages use.

export { h, replace, svg } from '../lib/dom.js';
export { all, del, environmentPath, get, inWords, patch, path, post, put, root, withQuery } from '../lib/api.js';
export { live } from '../lib/live.js';
export { isMe, may, me } from '../lib/session.js';
export { go, reload } from '../lib/router.js';
export { clock, duration, exactly, now, timeElement } from '../lib/time.js';
export { ask, asking } from './ask.js';
export { button } from './button.js';
export { ago, at, atEnd, coded, commit, environment, mono, orDash, pipelineField, plural, quiet, row, shortCommit, strong, upperFirst, wrap } from './cells.js';
export { field, form } from './form.js';
export { icon } from './icon.js';
export { filterRow, listPage, refetch, valuesOf } from './list-page.js';
export { menu } from './menu.js';
export { copyable, empty, notice, toast } from './notice.js';
export { avatar, person } from './people.js';
export { shownOnce } from './shown-once.js';
export { state } from './state.js';
export { facts, pageHead, table, tabs } from './table.js';
