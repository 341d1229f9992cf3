// Draws one plot: axes, grid, lines, phases as bands, marks. Fits its width, and is redrawn when that changes.

const svgNamespace = document.getElementById("seed").namespaceURI;
const USUAL_HEIGHT = 190;
const ROW = 13;
const pen = document.createElement("canvas").getContext("2d");
const TOP = 24;
function textWidth(text, weight) {
  pen.font = `${weight || 400} 11px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

const inOrder = (names) => [...new Set(names)];

function svg(parent, name, attributes, text) {
  const made = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function element(parent, name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// spec: { title, yTitle, xTitle, x: { kind, from, to }, y: { kind, min, max, format }, formatX,
//   series: [{ name, className, points: [[x, y], …, null], area }], bands: [{ from, to, name }], marks: [[at, text]] }
function addPlot(parent, spec) {
  const figure = element(parent, "figure");
  const caption = element(figure, "figcaption");
  element(caption, "b", "", spec.title);
  if (spec.series.length > 1 || spec.nameOne) addLegend(caption, spec.series);
  const plot = { spec, figure, box: element(figure, "div", "plot"), width: 0 };
  const redraw = () => {
    const width = Math.floor(plot.box.clientWidth);
    if (width > 0 && width !== plot.width) draw(plot, width);
  };
  redraw();
  new ResizeObserver(redraw).observe(plot.box);
  addHover(plot);
  return plot;
}

function addLegend(caption, series) {
  const legend = element(caption, "span", "legend");
  for (const one of series) {
    const entry = element(legend, "span");
    const key = svg(entry, "svg", { width: 18, height: 8, "aria-hidden": "true" });
    svg(key, "path", { d: "M1 4H17", class: "series " + one.className });
    entry.append(one.name);
  }
}

function draw(plot, width) {
  const { spec } = plot;
  plot.width = width;
  plot.height = spec.height || USUAL_HEIGHT;
  plot.box.replaceChildren();
  const root = svg(plot.box, "svg", { viewBox: `0 0 ${width} ${plot.height}`, role: "img", tabindex: 0, "aria-label": `${spec.title}: ${spec.yTitle} by ${spec.xTitle}` });
  const y = spec.y.kind === "log" ? logScale(spec.y.min, spec.y.max) : linearScale(spec.y.max, 4);
  const left = Math.ceil(Math.max(24, ...y.ticks.map((tick) => textWidth(spec.y.format(tick))))) + 8;
  const right = 14;
  const markRows = layMarks(spec, left, width - left - right);
  const top = TOP - (markRows.count ? 6 : 0) + ROW * markRows.count + (spec.bands && spec.bands.length > 1 ? ROW : 0);
  const frame = { left, top, width: width - left - right, height: plot.height - top - 32 };
  const x = spec.x.kind === "time" ? timeScale(spec.x.from, spec.x.to, frame.width) : quantileScale(spec.x.to);
  plot.frame = frame;
  plot.toX = (value) => frame.left + x.place(value) * frame.width;
  plot.toY = (value) => frame.top + (1 - y.place(value)) * frame.height;
  drawBands(plot, root);
  drawAxes(plot, root, x, y);
  // Below the series, because the values at a mark matter most.
  drawMarks(plot, root, markRows);
  for (const series of spec.series) drawSeries(plot, root, series);
  plot.root = root;
  plot.cursor = svg(root, "g", { class: "cursor", visibility: "hidden" });
}

function drawAxes(plot, root, x, y) {
  const { spec, frame } = plot;
  const bottom = frame.top + frame.height, end = frame.left + frame.width;
  for (const tick of y.minor) svg(root, "path", { class: "grid minor", d: `M${frame.left} ${plot.toY(tick).toFixed(1)}H${end}` });
  let above = Infinity;
  for (const tick of y.ticks) {
    const place = plot.toY(tick);
    svg(root, "path", { class: "grid", d: `M${frame.left} ${place.toFixed(1)}H${end}` });
    if (above - place < 12) continue;
    above = place;
    svg(root, "text", { x: frame.left - 6, y: place + 3.5, "text-anchor": "end" }, spec.y.format(tick));
  }
  let before = -Infinity;
  for (const tick of x.ticks) {
    const text = spec.formatX(tick), place = plot.toX(tick), half = textWidth(text) / 2;
    svg(root, "path", { class: "grid", d: `M${place.toFixed(1)} ${bottom}v4` });
    const middle = Math.min(Math.max(place, half), plot.width - half);
    if (middle - half < before + 8) continue;
    before = middle + half;
    svg(root, "text", { x: middle, y: bottom + 15, "text-anchor": "middle" }, text);
  }
  svg(root, "path", { class: "axis", d: `M${frame.left} ${bottom}H${end}` });
  svg(root, "text", { class: "title", x: 0, y: 10 }, spec.yTitle);
  svg(root, "text", { class: "title", x: end, y: plot.height - 3, "text-anchor": "end" }, spec.xTitle);
}

function drawSeries(plot, root, series) {
  let line = "", dots = "", area = "", stretch = [];
  const bottom = plot.frame.top + plot.frame.height;
  const finish = () => {
    if (stretch.length === 1) dots += `M${stretch[0]}h0`;
    if (stretch.length > 1) {
      line += "M" + stretch.join("L");
      const first = stretch[0].split(" ")[0], last = stretch[stretch.length - 1].split(" ")[0];
      area += `M${first} ${bottom}L${stretch.join("L")}L${last} ${bottom}Z`;
    }
    stretch = [];
  };
  for (const point of series.points) {
    if (point === null) finish();
    else stretch.push(plot.toX(point[0]).toFixed(1) + " " + plot.toY(point[1]).toFixed(1));
  }
  finish();
  if (series.area && area) svg(root, "path", { class: "area " + series.className, d: area });
  if (line) svg(root, "path", { class: "series " + series.className, d: line });
  if (dots) svg(root, "path", { class: "series dot " + series.className, d: dots });
}

// Bands are named if all names fit, in full or without their common last words; the hover shows all names.
function drawBands(plot, root) {
  const { spec, frame } = plot;
  if (!spec.bands || spec.bands.length < 2) return;
  const room = (band) => plot.toX(band.to) - plot.toX(band.from) - 4;
  const full = spec.bands.map((band) => band.name);
  const names = [full, withoutCommonEnd(full)].find((names) => names.every((name, at) => textWidth(name) <= room(spec.bands[at])));
  spec.bands.forEach((band, index) => {
    const from = plot.toX(band.from), wide = Math.max(0, plot.toX(band.to) - from);
    if (index % 2 === 0) svg(root, "rect", { class: "band", x: from, y: frame.top - ROW, width: wide, height: frame.height + ROW });
    const text = names ? names[index] : shortened(band.name, room(band));
    if (text) svg(root, "text", { class: "band-name", x: from + wide / 2, y: frame.top - 3, "text-anchor": "middle" }, text);
  });
}

function shortened(name, room, weight) {
  let kept = name;
  while (kept.length > 2 && textWidth(kept === name ? name : kept + "…", weight) > room) kept = kept.slice(0, -1).trimEnd();
  return kept === name ? name : kept.length > 2 ? kept + "…" : "";
}

function withoutCommonEnd(names) {
  let words = names.map((name) => name.split(" "));
  while (words.every((one) => one.length > 1 && one[one.length - 1] === words[0][words[0].length - 1])) words = words.map((one) => one.slice(0, -1));
  return words.map((one) => one.join(" "));
}

// Rows of labels above the plot, so that none covers another. If there are too many, the first of each kind is named
// and the others are lines of the same style.
function layMarks(spec, left, width) {
  const marks = spec.marks || [];
  const kinds = inOrder(marks.map(([, text]) => text));
  const all = layLabels(spec, marks, kinds, left, width, () => true);
  if (all.labels.every((label) => label.row >= 0)) return all;
  return layLabels(spec, marks, kinds, left, width, (text, index) => marks.findIndex((mark) => mark[1] === text) === index);
}

function layLabels(spec, marks, kinds, left, width, named) {
  const ends = [];
  const scale = spec.x.kind === "time" && timeScale(spec.x.from, spec.x.to, width);
  const labels = marks.map(([at, full], index) => {
    const place = left + scale.place(at) * width;
    const text = shortened(full, width * 0.6, 600);
    const wide = textWidth(text, 600) + 8;
    const start = Math.max(left, Math.min(place + 4, left + width - wide + 8));
    let row = -1;
    if (named(full, index)) {
      row = ends.findIndex((end) => end <= start);
      if (row < 0 && ends.length < 2) row = ends.push(0) - 1;
      if (row >= 0) ends[row] = start + wide;
    }
    return { place, start, row, text, kind: kinds.indexOf(full) };
  });
  return { count: ends.length, labels };
}

function drawMarks(plot, root, rows) {
  for (const label of rows.labels) {
    const from = label.row < 0 ? plot.frame.top : TOP + label.row * ROW - 9;
    svg(root, "path", { class: "mark mark" + label.kind % 3, d: `M${label.place.toFixed(1)} ${from}V${plot.frame.top + plot.frame.height}` });
    if (label.row >= 0) svg(root, "text", { class: "mark-name", x: label.start, y: TOP + label.row * ROW }, label.text);
  }
}
