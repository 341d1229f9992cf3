// Owns scales: the position of a value, the ticks, and the formatting of values.

const numberFormat = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const wholeFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function formatNumber(value) {
  return Math.abs(value) >= 100 ? wholeFormat.format(value) : numberFormat.format(value);
}

function formatLatency(us) {
  if (us < 1e3) return formatNumber(us) + " µs";
  return us < 999500 ? formatNumber(us / 1e3) + " ms" : formatNumber(us / 1e6) + " s";
}

function formatBytes(bytes) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= size) return formatNumber(bytes / size) + " " + unit;
  }
  return formatNumber(bytes) + " B";
}

function formatShort(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (value >= size) return formatNumber(value / (unit === "k" ? 1e3 : size)) + (unit === "k" ? "k" : unit);
  }
  return formatNumber(value);
}

// 7, 1:05, 2:00:05; with a fraction only on very short axes.
function formatTime(seconds) {
  if (seconds < 60) return numberFormat.format(Math.round(seconds * 100) / 100) + " s";
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours > 0 ? hours + ":" + two(minutes) + ":" + two(rest) : minutes + ":" + two(rest);
}

function formatQuantile(quantile) {
  if (quantile >= 1) return "100%";
  const nines = Math.max(0, Math.ceil(-Math.log10(1 - quantile) - 1e-9) - 1);
  return parseFloat((quantile * 100).toFixed(nines + 1)) + "%";
}

function niceStep(range, most, steps) {
  const rough = range / Math.max(1, most);
  const decade = Math.pow(10, Math.floor(Math.log10(rough)));
  for (const step of steps) if (step * decade >= rough) return step * decade;
  return 10 * decade;
}

// Leaves room at the top for the names of the phases.
function linearScale(max, most) {
  const high = max > 0 ? max * 1.12 : 1;
  const step = niceStep(high, most, [1, 2, 2.5, 5, 10]);
  const end = Math.ceil(high / step - 1e-9) * step;
  const ticks = [];
  for (let index = 0; index * step <= end * (1 + 1e-9); index++) ticks.push(index * step);
  return { place: (value) => Math.max(0, value) / end, ticks, minor: [] };
}

// From a fraction of the decade below the lowest value to one above the highest; at least one decade.
function logScale(min, max) {
  const parts = [1, 2, 5, 10];
  let low = Math.max(1, min), high = Math.max(low, max);
  const decade = (value) => Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
  low = decade(low) * [...parts].reverse().find((part) => part * decade(low) <= low * (1 + 1e-9));
  high = decade(high) * parts.find((part) => part * decade(high) >= high * (1 - 1e-9));
  if (high < low * 10) high = low * 10;
  const place = (value) => (Math.log10(Math.max(value, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low));
  const ticks = [], minor = [];
  const few = Math.log10(high / low) < 2.5;
  for (let base = decade(low); base <= high * (1 + 1e-9); base *= 10) {
    for (let digit = 1; digit < 10; digit++) {
      const value = base * digit;
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      (digit === 1 || (few && (digit === 2 || digit === 5)) ? ticks : minor).push(value);
    }
  }
  return { place, ticks, minor };
}

function timeScale(from, to, width) {
  const range = Math.max(to - from, 1e-3);
  const most = Math.max(2, Math.floor(width / 64));
  const round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const step = range / most <= 1 ? niceStep(range, most, [1, 2, 5, 10])
    : round.find((step) => step >= range / most) || Math.ceil(range / most / 86400) * 86400;
  const ticks = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to + step * 1e-6; index++) ticks.push(index * step + 0);
  return { place: (value) => (value - from) / range, ticks, minor: [] };
}

// Each further nine takes the same width.
function quantileScale(most) {
  const nines = (quantile) => -Math.log10(Math.max(1 - quantile, 1e-12));
  const end = Math.max(1, nines(most));
  const ticks = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999].filter((at) => nines(at) <= end + 1e-9);
  return { place: (value) => Math.min(1, nines(value) / end), ticks, minor: [] };
}
