// All events of the organization as sentences, newest first. New events appear automatically.

import { all, avatar, button, clock, empty, exactly, facts, filterRow, get, h, inWords, live, mono, notice, pageHead, pipelineField, replace, valuesOf } from '../parts/all.js';
import { EVENT_GROUPS, eventWords } from '../parts/event-words.js';

const PAGE = 50;
// An open page shows the newest events; older ones need a filter.
const SHOWN_MOST = 500;
// Scrolled down further than this, the user is reading, and new events are held back.
const READING_PIXELS = 80;
const HOUR_MILLISECONDS = 3600_000;

export async function show({ query, signal, main, title }) {
  title('Events');
  const filters = await filtersOf(query, signal);
  const values = valuesOf(filters, query);
  const [list, foot, fresh, trouble] = [h('ol', { class: 'events' }), h('div', { class: 'list-foot' }), h('div', { class: 'fresh' }), h('div')];
  let held = [];
  let total = 0;

  const drawn = () => {
    const shown = list.children.length;
    replace(fresh, held.length > 0 ? h('button', { type: 'button', class: 'button primary small', on: { click: showHeld } }, `Show ${held.length} new`) : null);
    replace(foot, shown > 0 ? h('span', { class: 'quiet small' }, `${shown} of ${total}`) : null, shown < Math.min(total, SHOWN_MOST) ? button({ label: 'Show older', onClick: () => read(shown) }) : null);
  };
  const showHeld = () => {
    main.scrollTop = 0;
    list.prepend(...held.map(row));
    while (list.children.length > SHOWN_MOST) list.lastChild.remove();
    held = [];
    drawn();
  };
  const none = h('div');
  const read = async (offset = 0) => {
    const { hours, ...rest } = values;
    const since = hours ? new Date(Date.now() - hours * HOUR_MILLISECONDS).toISOString() : '';
    const { data, pagination } = await get('/events', { query: { ...rest, since, limit: PAGE, offset }, signal });
    total = pagination.total;
    if (offset === 0) replace(list), held = [];
    const known = new Set([...list.children].map((item) => item.dataset.event));
    list.append(...data.filter(({ eventId }) => !known.has(eventId)).map(row));
    replace(none, total > 0 ? null : Object.values(values).some(Boolean) ? h('p', { class: 'quiet none' }, 'Nothing fits these filters.')
      : empty({ icon: 'list', title: 'Nothing has happened yet', text: 'Each claim, release, deployment and change appears here, with who did it.' }));
    replace(trouble);
    drawn();
  };
  const again = () => read().catch((error) => error.name === 'AbortError' || replace(trouble, notice('bad', inWords(error))));

  await read();
  replace(main, h('section', { class: 'page' }, pageHead({ title: 'Events', text: 'Who did what, newest first.' }),
    filterRow(filters, values, again), trouble, fresh, h('div', { class: 'card flush' }, none, list), foot));
  return live.follow({}, (event) => {
    if (event.type === 'reset') return again();
    if (!fits(values, event)) return undefined;
    total += 1;
    held = [event, ...held].slice(0, SHOWN_MOST);
    replace(none);
    return main.scrollTop > READING_PIXELS ? drawn() : showHeld();
  });
}

async function filtersOf(query, signal) {
  const [pipeline, members] = await Promise.all([pipelineField(signal), all('/members', { signal })]);
  const types = EVENT_GROUPS.map((group) => [`${group}.*`, group.replace('_', ' ')]);
  // A link can name a single type.
  if (query.type && !types.some(([type]) => type === query.type)) types.push([query.type, query.type]);
  return [
    { label: 'What', name: 'type', options: [['', 'Everything'], ...types] },
    pipeline,
    { label: 'Environment', name: 'envName', placeholder: 'review-1' },
    { label: 'Who', name: 'actor', options: [['', 'Anybody'], ['system', 'The system'], ...members.map(({ userId, name }) => [userId, name])] },
    { label: 'When', name: 'hours', options: [['', 'Any time'], ['1', 'Last hour'], ['24', 'Last day'], ['168', 'Last week'], ['720', 'Last 30 days']] },
  ];
}

function fits({ type, pipelineId, envName, actor }, event) {
  return (!type || event.type === type || (type.endsWith('.*') && event.type.startsWith(type.slice(0, -1))))
    && (!pipelineId || event.pipelineId === pipelineId) && (!envName || event.envName === envName) && (!actor || (event.actor.userId ?? 'system') === actor);
}

function row(event) {
  const body = h('div', { class: 'event-more', hidden: true });
  const toggle = h('button', { class: 'event-line', type: 'button', 'aria-expanded': 'false', title: 'Show everything about it' },
    h('time', { class: 'quiet small nowrap', datetime: event.at, title: exactly(event.at) }, clock(event.at)), h('span', { class: 'tag' }, event.type));
  toggle.addEventListener('click', () => {
    body.hidden = !body.hidden;
    toggle.setAttribute('aria-expanded', String(!body.hidden));
    replace(body, facts([['At', exactly(event.at)], ...Object.entries({ ...event.data, session: event.sessionId, deployment: event.deploymentId, request: event.requestId, token: event.actor.tokenId, event: event.eventId })
      .map(([name, value]) => [name, value == null ? null : mono(String(value))])]));
  });
  return h('li', { class: 'event', data: { event: event.eventId } }, event.actor.name ? avatar(event.actor.name) : h('span', { class: 'avatar system', 'aria-hidden': 'true' }), eventWords(event), toggle, body);
}
