// Runs before the first paint, so that the chosen appearance does not flash: 'light', 'dark', or the system's if unset.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem('appearance');
  } catch {
    // If storage is forbidden, the system's appearance applies.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.appearance = chosen;
}
