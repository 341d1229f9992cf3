// Draws only the visible rows of a long list. Rows have the same height, belong to a key, and are reused.

// Extra rows beyond the edges, so that fast scrolling shows no gap.
const MARGIN_ROWS = 8;

// scroller: the scrolling element; body: contains the rows; make() → row element; fill(row, item, index).
export function windowed({ scroller, body, rowHeight, keyOf, make, fill }) {
  let items = [];
  const rows = new Map();
  const unused = [];
  let frame = null;
  let height = rowHeight();

  const draw = () => {
    frame = null;
    const top = scroller === body.parentElement ? 0 : body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop;
    const first = Math.max(0, Math.floor((scroller.scrollTop - top) / height) - MARGIN_ROWS);
    const last = Math.min(items.length, Math.ceil((scroller.scrollTop - top + scroller.clientHeight) / height) + MARGIN_ROWS);
    const wanted = new Map();
    for (let at = first; at < last; at += 1) wanted.set(keyOf(items[at], at), at);
    for (const [key, row] of rows) {
      if (wanted.has(key)) continue;
      rows.delete(key);
      row.remove();
      unused.push(row);
    }
    const focused = document.activeElement;
    let before = body.firstChild;
    for (const [key, at] of wanted) {
      let row = rows.get(key);
      if (!row) {
        row = unused.pop() ?? make();
        row.isNew = true;
        rows.set(key, row);
      }
      fill(row, items[at], at);
      row.isNew = false;
      const place = `translateY(${at * height}px)`;
      if (row.style.transform !== place) row.style.transform = place;
      // In display order, for the Tab key and screen readers.
      if (row === before) before = before.nextSibling;
      else body.insertBefore(row, before);
    }
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
    if (unused.length > 50) unused.length = 50;
  };

  const later = () => { frame ??= requestAnimationFrame(draw); };
  const resized = new ResizeObserver(() => {
    height = rowHeight();
    body.style.height = `${items.length * height}px`;
    later();
  });
  resized.observe(scroller);
  scroller.addEventListener('scroll', later, { passive: true });

  return {
    // Draws in the next frame, once for any number of calls.
    later,
    set(next) {
      if (next.length !== items.length) body.style.height = `${next.length * height}px`;
      items = next;
      later();
    },
    items: () => items,
    row: (key) => rows.get(key),
    keys: () => [...rows.keys()],
    // Scrolls this row into view and draws it.
    reveal(at, edge = 48) {
      const top = body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + at * height;
      if (top < edge) scroller.scrollTop += top - edge;
      else if (top + height > scroller.clientHeight) scroller.scrollTop += top + height - scroller.clientHeight + 8;
      draw();
    },
    stop() {
      resized.disconnect();
      scroller.removeEventListener('scroll', later);
      if (frame !== null) cancelAnimationFrame(frame);
    },
  };
}
