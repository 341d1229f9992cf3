// Times for display. One timer updates all of them, without requests.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
// The header has whole seconds and the response takes a moment, so smaller differences are ignored.
const CLOCK_TOLERANCE_MILLISECONDS = 2500;

let offset = 0;

// Milliseconds by the server's clock: the time left of a lock must not depend on this machine's clock.
export function now() {
  return Date.now() + offset;
}

export function correctClock(header) {
  const server = Date.parse(header ?? '');
  if (Number.isNaN(server)) return;
  const difference = server - Date.now();
  if (Math.abs(difference - offset) > CLOCK_TOLERANCE_MILLISECONDS) {
    offset = Math.abs(difference) > CLOCK_TOLERANCE_MILLISECONDS ? difference : 0;
  }
}

// '45 s', '14 min', '2 h 5 min', '3 d 4 h'
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return whole < 5 * MINUTE && whole % MINUTE ? `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`
    : `${Math.round(whole / MINUTE)} min`;
  if (whole < DAY) return two(whole, HOUR, 'h', MINUTE, 'min');
  return two(whole, DAY, 'd', HOUR, 'h');
}

function two(seconds, large, largeName, small, smallName) {
  const inSmall = Math.round(seconds / small);
  const rest = inSmall % (large / small);
  return `${Math.floor(inSmall / (large / small))} ${largeName}${rest ? ` ${rest} ${smallName}` : ''}`;
}

// '3 min ago', 'in 3 min', 'just now'
export function relative(iso) {
  const seconds = (Date.parse(iso) - now()) / 1000;
  if (Math.abs(seconds) < 5) return 'just now';
  return seconds < 0 ? `${coarse(-seconds)} ago` : `in ${coarse(seconds)}`;
}

function coarse(seconds) {
  if (seconds < MINUTE) return `${Math.round(seconds)} s`;
  if (seconds < HOUR) return `${Math.round(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.round(seconds / HOUR)} h`;
  return `${Math.round(seconds / DAY)} d`;
}

const ofToday = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const ofOtherDays = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });

// '9:31' today, '14 Nov, 9:31' on other days
export function clock(iso) {
  const time = new Date(iso);
  return (time.toDateString() === new Date(now()).toDateString() ? ofToday : ofOtherDays).format(time);
}

export function exactly(iso) {
  return exact.format(new Date(iso));
}

export function secondsSince(iso) {
  return (now() - Date.parse(iso)) / 1000;
}

export function secondsUntil(iso) {
  return -secondsSince(iso);
}

const MODES = {
  ago: relative,
  since: (iso) => duration(secondsSince(iso)),
  left: (iso) => (secondsUntil(iso) <= 0 ? 'now' : duration(secondsUntil(iso))),
};

// A self-updating <time>. Modes: 'ago' (3 min ago), 'since' (14 min), 'left' (4 min).
export function timeElement(iso, mode = 'ago') {
  return setTime(document.createElement('time'), iso, mode);
}

// The same for an element that is reused.
export function setTime(element, iso, mode = 'ago') {
  if (element.dateTime !== iso) {
    element.dateTime = iso;
    element.title = exactly(iso);
  }
  element.dataset.tick = mode;
  const text = MODES[mode](iso);
  if (element.textContent !== text) element.textContent = text;
  return element;
}

const listeners = new Set();

// Calls fn every second while the page is visible; returns a function that stops it.
export function eachSecond(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll('time[data-tick]')) {
    const text = MODES[element.dataset.tick](element.dateTime);
    if (element.textContent !== text) element.textContent = text;
  }
  for (const fn of listeners) fn();
}, 1000);
