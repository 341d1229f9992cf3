// Values stored in this browser, for convenience only: storage may be forbidden or full.

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
    // Not stored; the user is asked again.
  }
}
