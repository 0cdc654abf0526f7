/** How long a user might wait. */
export const TIMEOUT_MS = 60_000;

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
