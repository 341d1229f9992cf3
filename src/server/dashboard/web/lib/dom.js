// Creates and changes elements. Never parses HTML, which the page's policy forbids, so text cannot become markup.

const SVG = 'http://www.w3.org/2000/svg';
// Set as properties, since the attributes only give initial values.
const PROPERTIES = new Set(['value', 'checked', 'selected', 'disabled', 'indeterminate', 'hidden', 'open']);

// h('p', {class: 'quiet', on: {click: fn}, data: {id: 7}}, 'text', node, [more], null)
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

// Writes only changes, to avoid unnecessary layout.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === 'data') {
      Object.assign(element.dataset, value);
    } else if (name === 'style') {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else if (PROPERTIES.has(name) && element.namespaceURI !== SVG) {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== '')
    .map((child) => (child instanceof Node ? child : String(child)));
}

// Turns web addresses in a text into links. Only http and https, because a context can contain anything.
export function linked(text) {
  const parts = String(text).split(/(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]}'])/);
  return parts.map((part, place) => (place % 2 === 0 ? part
    : h('a', { href: part, target: '_blank', rel: 'noopener noreferrer' }, part.replace(/^https?:\/\//, ''))));
}
