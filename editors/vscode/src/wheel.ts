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

/** Whether a version such as `0.9.1` is older than another; an empty one is not. */
export function isOlder(version: string, other: string): boolean {
  return version !== "" && version.localeCompare(other, "en", { numeric: true }) < 0;
}
