/** How long a user of a busy machine might wait. */
export const TIMEOUT_MS = 90_000;

/** A key that nothing came of is pressed again after this time. */
const AGAIN_MS = 5_000;

/** Look again and again until there is something to see, and return it. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  while (Date.now() < end) {
    const seen = await look();
    if (seen) return seen;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`this did not happen in ${String(timeoutMs)} ms: ${what}`);
}

/** Do something and look; where nothing comes of it for a while, do it again. */
export async function doUntil<T>(
  what: string,
  act: () => Promise<unknown>,
  look: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  let actAt = 0;
  return until(what, async () => {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() < actAt) return undefined;
    await act();
    actAt = Date.now() + AGAIN_MS;
    return undefined;
  });
}
