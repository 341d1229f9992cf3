// Before the first paint, so that a chosen appearance does not flash: 'light', 'dark', or nothing for the system's.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem('appearance');
  } catch {
    // Storage may be forbidden; then the system's appearance counts.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.appearance = chosen;
}
