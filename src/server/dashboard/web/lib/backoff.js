// The pause before something that failed is tried again: it doubles from a first to a longest one, and differs by chance, so
// that the pages of many people do not all come back together. Failures are counted from 1.

export function pauseAfter(failures, first, most) {
  return Math.min(first * 2 ** (failures - 1), most) * (0.5 + Math.random() / 2);
}
