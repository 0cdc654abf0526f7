import { readdir } from "node:fs/promises";
import { join } from "node:path";

/** The server's wheel that a packaged extension carries. */
export interface Wheel {
  file: string;
  version: string;
}

/** Find the wheel in a folder; undefined where there is none, as in a checkout. */
export async function findWheel(folder: string): Promise<Wheel | undefined> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const version = /^speclsp-([^-]+)-.*\.whl$/.exec(name)?.[1];
    if (version !== undefined) return { file: join(folder, name), version };
  }
  return undefined;
}

/** Whether the release of a version such as `0.9.1` is older than another's; an empty one is not. */
export function isOlder(version: string, other: string): boolean {
  const mine = release(version);
  for (const [idx, part] of release(other).entries()) {
    const difference = (mine[idx] ?? 0) - part;
    if (difference !== 0) return mine.length > 0 && difference < 0;
  }
  return false;
}

/** The numbers with which a version begins, without a suffix such as `rc1` or `+cpu`. */
function release(version: string): number[] {
  return /^\d+(\.\d+)*/.exec(version)?.[0].split(".").map(Number) ?? [];
}
