// Shows the values under the pointer: a line through all plots that share the axis, with the values beside it.

const tip = document.getElementById("tip");
const sharing = {};

function addHover(plot) {
  const group = plot.spec.group;
  (sharing[group] = sharing[group] || []).push(plot);
  const hide = () => {
    tip.hidden = true;
    for (const other of sharing[group]) other.cursor.setAttribute("visibility", "hidden");
  };
  plot.box.addEventListener("pointermove", (event) => {
    const at = plot.box.getBoundingClientRect();
    const place = (event.clientX - at.left) * plot.width / at.width;
    show(plot, nearest(plot, place), event.clientX, event.clientY);
  });
  plot.box.addEventListener("pointerleave", hide);
  plot.box.addEventListener("focusout", hide);
  plot.box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = places(plot);
    const index = all.indexOf(plot.shown);
    const value = all[Math.min(all.length - 1, Math.max(0, index < 0 ? 0 : index + step))];
    const at = plot.box.getBoundingClientRect();
    show(plot, value, at.left + plot.toX(value) * at.width / plot.width, at.top + 40);
  });
}

function places(plot) {
  const all = new Set();
  for (const series of plot.spec.series) for (const point of series.points) if (point) all.add(point[0]);
  return [...all].sort((a, b) => a - b);
}

function nearest(plot, place) {
  let best, away = Infinity;
  for (const series of plot.spec.series) {
    for (const point of series.points) {
      if (point === null) continue;
      const distance = Math.abs(plot.toX(point[0]) - place);
      if (distance < away) [best, away] = [point[0], distance];
    }
  }
  return best;
}

// The point of a series at that position; none if no point is within a few pixels.
function valueAt(plot, series, value) {
  let best = null, away = 6;
  for (const point of series.points) {
    if (point === null) continue;
    const distance = Math.abs(plot.toX(point[0]) - plot.toX(value));
    if (distance < away) [best, away] = [point, distance];
  }
  return best;
}

function show(plot, value, clientX, clientY) {
  if (value === undefined) return;
  plot.shown = value;
  for (const other of sharing[plot.spec.group]) point(other, value);
  const { spec } = plot;
  tip.replaceChildren();
  const band = (spec.bands || []).find((band) => value >= band.from && value <= band.to);
  element(tip, "b", "", (spec.tipX || spec.formatX)(value) + (band && spec.bands.length > 1 ? ", " + band.name : ""));
  const rows = element(tip, "table");
  for (const series of spec.series) {
    const found = valueAt(plot, series, value);
    if (!found) continue;
    const row = element(rows, "tr");
    const key = svg(element(row, "td"), "svg", { width: 14, height: 8 });
    svg(key, "path", { d: "M1 4H13", class: "series " + series.className });
    element(row, "td", "", series.name);
    element(row, "td", "number", (spec.y.tip || spec.y.format)(found[1]));
  }
  for (const [at, text] of spec.marks || []) {
    if (Math.abs(plot.toX(at) - plot.toX(value)) < 6) element(tip, "p", "", text + ", " + formatTime(at));
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = clientX + 16 + box.width > innerWidth ? clientX - 16 - box.width : clientX + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(clientY - 20, innerHeight - box.height - 4)) + "px";
}

function point(plot, value) {
  const { frame, cursor, spec } = plot;
  cursor.replaceChildren();
  const place = plot.toX(value);
  if (!(place >= frame.left - 1 && place <= frame.left + frame.width + 1)) return;
  svg(cursor, "path", { d: `M${place.toFixed(1)} ${frame.top}v${frame.height}` });
  for (const series of spec.series) {
    const found = valueAt(plot, series, value);
    if (found) svg(cursor, "circle", { cx: plot.toX(found[0]), cy: plot.toY(found[1]), r: 3, class: series.className });
  }
  cursor.setAttribute("visibility", "visible");
}
