import { spawn } from "node:child_process";
import { access, constants, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

/** Where an executable is found, and how that was decided. */
export interface Found {
  command: string;
  origin: "setting" | "path" | "environment";
}

/** Why no server can be run, in words for the user. */
export class ServerCommandError extends Error {}

export function executableIn(environment: string, name: string): string {
  return process.platform === "win32"
    ? join(environment, "Scripts", `${name}.exe`)
    : join(environment, "bin", name);
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, process.platform === "win32" ? constants.F_OK : constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

export async function onPath(
  name: string,
  path = process.env["PATH"] ?? "",
): Promise<string | undefined> {
  const names = process.platform === "win32" ? [`${name}.exe`, `${name}.cmd`] : [name];
  for (const folder of path.split(delimiter).filter(isAbsolute)) {
    for (const candidate of names) {
      const file = join(folder, candidate);
      if (await isExecutable(file)) return file;
    }
  }
  return undefined;
}

/**
 * Find the server: the setting, else `PATH`, else the private environment.
 *
 * The setting is an absolute path, in which `~/` is the home folder, or a name on `PATH`: a
 * relative path would mean something else in each folder.  Throws ServerCommandError where the
 * setting names nothing that can be run.
 */
export async function findServer(
  setting: string,
  environment: string,
  path?: string,
): Promise<Found | undefined> {
  if (setting !== "") return { command: await named(setting, path), origin: "setting" };
  const found = await onPath("speclsp", path);
  if (found !== undefined) return { command: found, origin: "path" };
  const own = executableIn(environment, "speclsp");
  return (await isExecutable(own)) ? { command: own, origin: "environment" } : undefined;
}

async function named(setting: string, path?: string): Promise<string> {
  const file = setting.startsWith("~/") ? join(homedir(), setting.slice(2)) : setting;
  if (isAbsolute(file)) {
    if (await isExecutable(file)) return file;
  } else if (!/[\\/]/.test(file)) {
    const found = await onPath(file, path);
    if (found !== undefined) return found;
  }
  throw new ServerCommandError(`speclsp.server.path: there is no executable ${setting}.`);
}

export interface Ran {
  code: number | null;
  /** The end of what it wrote. */
  output: string;
}

const MAX_OUTPUT = 20_000;

/** Run a command to its end; `abort` stops it.  It never throws for what the command does. */
export async function run(
  command: string,
  args: readonly string[],
  abort?: AbortSignal,
  heard: (line: string) => void = () => undefined,
): Promise<Ran> {
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(command, [...args], { stdio: ["ignore", "pipe", "pipe"], signal: abort });
    const hear = (data: Buffer): void => {
      const text = data.toString();
      output = (output + text).slice(-MAX_OUTPUT);
      for (const line of text.split("\n")) if (line.trim() !== "") heard(line.trim());
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("error", (error) => {
      resolve({ code: null, output: output + error.message });
    });
    child.on("close", (code) => {
      resolve({ code, output });
    });
  });
}
