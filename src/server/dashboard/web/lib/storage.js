// What this browser remembers. It is only ever a convenience: storage may be forbidden or full.

export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then it is asked for again.
  }
}
