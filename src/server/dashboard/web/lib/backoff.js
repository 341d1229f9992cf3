// The pause before retrying. It doubles from `first` up to `most` and is randomized, so that many people's pages do not
// all reconnect at the same moment. Failures are counted from 1.

export function pauseAfter(failures, first, most) {
  return Math.min(first * 2 ** (failures - 1), most) * (0.5 + Math.random() / 2);
}
