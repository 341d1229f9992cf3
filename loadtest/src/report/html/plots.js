// Decides which plots to draw: the compared series and the axes. A plot without data is left out.

const runs = JSON.parse(document.getElementById("data").textContent);
const colour = (index) => "s" + (index % 8 + 1) + (index >= 8 ? " dashed" : "");
const runName = (index) => index < 26 ? String.fromCharCode(65 + index) : String(index + 1);
const ends = (series) => {
  let [min, max] = [Infinity, 0];
  for (const one of series) for (const point of one.points) if (point) [min, max] = [Math.min(min, point[1]), Math.max(max, point[1])];
  return { min, max };
};
const drawn = (series) => series.filter((one) => one.points.some((point) => point));

function drawPercentiles(parent) {
  const of = (run, phase) => runs[run].phases.filter((one) => one.name === phase).flatMap((one) => one.distributions);
  const phases = inOrder(runs.flatMap((run) => run.phases.filter((phase) => phase.distributions.length).map((phase) => phase.name)));
  const operations = inOrder(runs.flatMap((run) => run.phases.flatMap((phase) => phase.distributions.map((one) => one.name))));
  const line = (distribution, name, index) => ({ name, className: colour(index), points: quantilePoints(distribution) });
  const plots = [];
  if (runs.length > 1) {
    // One plot per operation of each phase, one line per run.
    for (const phase of phases) for (const operation of operations) {
      const series = runs.flatMap((_, run) => of(run, phase).filter((one) => one.name === operation).map((one) => line(one, runName(run), run)));
      plots.push({ title: phases.length > 1 && phase !== operation ? `${operation} (${phase})` : operation, series });
    }
  } else {
    // One plot per operation that several phases have, with one line per phase; the other operations of a phase share a
    // plot.
    const having = (operation) => phases.filter((phase) => of(0, phase).some((one) => one.name === operation));
    const shared = operations.filter((operation) => having(operation).length > 1);
    for (const operation of shared) {
      const series = having(operation).map((phase) => line(of(0, phase).find((one) => one.name === operation), phase, phases.indexOf(phase)));
      plots.push({ title: operation, series });
    }
    const rest = operations.filter((operation) => !shared.includes(operation));
    const series = rest.map((operation, index) => line(of(0, having(operation)[0]).find((one) => one.name === operation), operation, index));
    plots.push({ title: shared.length ? "other operations" : "by operation", series });
  }
  const filled = plots.map((plot) => ({ ...plot, series: drawn(plot.series) })).filter((plot) => plot.series.length);
  const to = Math.max(0.9, ...filled.flatMap((plot) => plot.series).flatMap((one) => one.points.map((point) => point[0])));
  for (const { title, series } of filled) {
    const y = { kind: "log", format: formatLatency, ...ends(series) };
    addPlot(parent, { title, series, nameOne: true, height: 230, group: "quantile", yTitle: "latency", xTitle: "percentile", x: { kind: "quantile", to }, y, formatX: formatQuantile, tipX: (at) => formatQuantile(at) + " took no longer than" });
  }
}

// The slowest of n represents the last of n: 100% itself is not on this axis.
function quantilePoints(distribution) {
  const last = 1 - 1 / Math.max(2, distribution.count);
  return distribution.points.map(([quantile, us]) => [Math.min(quantile, last), us]);
}

// Stretches of time in which one phase was running; two that overlap cannot share a plot.
function stretches(run) {
  const found = [];
  run.phases.forEach((phase, index) => phase.from.forEach((from, at) => {
    const open = found[found.length - 1];
    const follows = open && open.phase === index && !gapBefore(phase, at);
    if (follows) open.to = phase.to[at];
    else found.push({ phase: index, name: phase.name, from, to: phase.to[at] });
  }));
  found.sort((a, b) => a.from - b.from);
  const apart = found.every((one, at) => at === 0 || found[at - 1].to <= one.from + 0.5 * (one.to - one.from));
  return { found, apart };
}

function gapBefore(phase, at) {
  if (at === 0) return true;
  const length = Math.max(phase.to[at] - phase.from[at], phase.to[at - 1] - phase.from[at - 1]);
  return phase.from[at] - phase.to[at - 1] > 0.75 * length;
}

// Single missing values are bridged; a gap in time or a longer silence is shown as a gap.
function overTime(phases, valuesOf) {
  const points = [];
  for (const phase of phases) {
    const values = valuesOf(phase);
    if (!values) continue;
    let silent = 0;
    points.push(null);
    values.forEach((value, at) => {
      if (gapBefore(phase, at)) points.push(null);
      if (value === null || value === undefined) {
        if (++silent === 3) points.push(null);
        return;
      }
      silent = 0;
      points.push([(phase.from[at] + phase.to[at]) / 2, value]);
    });
  }
  return points;
}

// Each kind of plot over time, for one run (or for one of its phases, if several ran at the same time).
function kindsOver(phases, operations) {
  const find = (phase, name) => phase.operations.find((one) => one.name === name);
  const kinds = operations.map((name) => ({
    key: "latency", title: name + " latency", yTitle: "latency", y: { kind: "log", format: formatLatency },
    series: [["max", "max"], ["p99", "p99"], ["p50", "p50"]].map(([label, className], at) => ({
      name: label, className, points: overTime(phases, (phase) => find(phase, name)?.latency.map((all) => all && all[2 - at])),
    })),
  }));
  const rates = operations.map((name, index) => ({ name, className: colour(index), points: overTime(phases, (phase) => find(phase, name)?.rate) }));
  const some = (series) => series.some((one) => one.points.some((point) => point && point[1] > 0)) ? series : [];
  kinds.push({ key: "throughput", title: "throughput", yTitle: "per second", y: { kind: "linear", format: formatShort, tip: (value) => formatNumber(value) + " /s" }, series: some(rates), nameOne: true });
  kinds.push({ key: "errors", title: "errors", yTitle: "per second", y: { kind: "linear", format: formatShort, tip: (value) => formatNumber(value) + " /s" }, series: some([{ name: "errors", className: "bad", area: true, points: overTime(phases, (phase) => phase.errors) }]) });
  kinds.push({ key: "under way", title: "requests under way", yTitle: "requests at a time", y: { kind: "linear", format: formatShort, tip: formatNumber }, series: some([
    { name: "all", className: "s1", points: overTime(phases, (phase) => phase.inFlight) },
    { name: "of these, claims that wait", className: "s2", area: true, points: overTime(phases, (phase) => phase.waiting) },
  ]) });
  kinds.push({ key: "cpu", title: "server CPU", yTitle: "percent of one core", y: { kind: "linear", format: (value) => formatNumber(value) + "%" }, series: [{ name: "CPU", className: "s3", area: true, points: overTime(phases, (phase) => phase.cpu) }] });
  kinds.push({ key: "memory", title: "server memory", yTitle: "resident", y: { kind: "linear", format: formatBytes }, series: [{ name: "memory", className: "s4", area: true, points: overTime(phases, (phase) => phase.memory) }] });
  return kinds.map((kind) => ({ ...kind, series: drawn(kind.series) }));
}

function drawTimeline(parent) {
  const operations = inOrder(runs.flatMap((run) => run.phases.flatMap((phase) => phase.operations.map((one) => one.name))));
  const columns = runs.flatMap((run, index) => {
    const { found, apart } = stretches(run);
    const name = runs.length > 1 ? runName(index) : "";
    if (apart) return [{ run, index, name, bands: found, kinds: kindsOver(run.phases, operations) }];
    return run.phases.map((phase) => ({ run, index, name: name ? `${name}: ${phase.name}` : phase.name, bands: [], kinds: kindsOver([phase], operations) }));
  });
  // Only runs are arranged in columns; phases that run at the same time often have nothing to compare.
  const side = runs.length > 1;
  const to = Math.max(...columns.flatMap(({ run }) => run.phases.flatMap((phase) => phase.to)));
  const from = Math.min(0, ...columns.flatMap(({ run }) => run.phases.flatMap((phase) => phase.from)));
  if (side) parent.style.setProperty("--columns", columns.length);
  parent.classList.toggle("side", side);
  columns[0].kinds.forEach((_, at) => {
    const all = columns.map((column) => column.kinds[at]);
    const axis = ends(all.flatMap((kind) => kind.series));
    if (axis.min === Infinity) return;
    columns.forEach((column, place) => {
      const kind = all[place];
      if (!side && !kind.series.length) return;
      const title = columns.length > 1 ? `${column.name} · ${kind.title}` : kind.title;
      if (!kind.series.length) return element(parent, "p", "none", kind.key === "errors" ? `${column.name} had no errors.` : `${title}: not recorded.`);
      addPlot(parent, { ...kind, title, group: "time", xTitle: "time since the run began", x: { kind: "time", from, to }, y: { ...kind.y, ...axis }, formatX: formatTime, bands: column.bands, marks: column.run.marks });
    });
  });
}

const percentiles = document.getElementById("percentiles");
if (percentiles) drawPercentiles(percentiles);
const timeline = document.getElementById("timeline");
if (timeline) drawTimeline(timeline);
