import { spawn } from "node:child_process";
import { executableIn, onPath, pathsOf, thisMachine, type Machine } from "./machine.js";

/** An executable, and where it was found. */
export interface Found {
  command: string;
  origin: "setting" | "path" | "environment";
}

/** Why no server can be run: a message for the user. */
export class ServerCommandError extends Error {}

/**
 * Find the server: the setting, else `PATH`, else the private environment.
 *
 * The setting is an absolute path, in which `~/` is the home folder, or a name on `PATH`: a
 * relative path would mean something else in each folder.  Throws ServerCommandError if the
 * setting names no executable.
 */
export async function findServer(
  setting: unknown,
  environment: string,
  machine = thisMachine(),
): Promise<Found | undefined> {
  if (typeof setting !== "string") {
    throw new ServerCommandError("speclsp.server.path: it must be a string.");
  }
  if (setting !== "") return { command: await named(setting, machine), origin: "setting" };
  const found = await onPath("speclsp", machine);
  if (found !== undefined) return { command: found, origin: "path" };
  const own = executableIn(environment, "speclsp", machine);
  return (await machine.isExecutable(own)) ? { command: own, origin: "environment" } : undefined;
}

/** Check the setting of further arguments; throws ServerCommandError. */
export function checkedArguments(setting: unknown): string[] {
  if (Array.isArray(setting) && setting.every((each) => typeof each === "string")) return setting;
  throw new ServerCommandError(
    'speclsp.server.arguments: it must be a list of strings, for example ["--log-level", "debug"].',
  );
}

async function named(setting: string, machine: Machine): Promise<string> {
  if (machine.isWindows && /\.(bat|cmd)$/i.test(setting)) {
    throw new ServerCommandError(
      `speclsp.server.path: ${setting} is a batch file, which cannot be run here. Name the .exe.`,
    );
  }
  const paths = pathsOf(machine);
  const file = /^~[\\/]/.test(setting) ? paths.join(machine.home, setting.slice(2)) : setting;
  if (paths.isAbsolute(file)) {
    if (await machine.isExecutable(file)) return file;
    if (machine.isWindows && (await machine.isExecutable(`${file}.exe`))) return `${file}.exe`;
  } else if (!/[\\/]/.test(file)) {
    const found = await onPath(file, machine);
    if (found !== undefined) return found;
  }
  throw new ServerCommandError(`speclsp.server.path: there is no executable ${setting}.`);
}

/** Settings as options of the command line: numbers and texts alone, which decide on the models. */
export function asOptions(given: Record<string, unknown>): string[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const isPlain = typeof value === "number" || (typeof value === "string" && value !== "");
    const option = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return isPlain ? [option, String(value)] : [];
  });
}

export interface Ran {
  code: number | null;
  /** The end of what it wrote. */
  output: string;
}

const MAX_OUTPUT = 20_000;

/**
 * Run a command to its end; `abort` stops it and what it started, and `env` is added to the
 * environment.
 *
 * A command that fails or does not start resolves, too: its code is then not 0.
 */
export async function run(
  command: string,
  args: readonly string[],
  abort?: AbortSignal,
  heard: (line: string) => void = () => undefined,
  env: Record<string, string> = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    let output = "";
    const isWindows = process.platform === "win32";
    const child = spawn(command, [...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
      detached: !isWindows, // a process group of its own, which ends as a whole
    });
    const stop = (): void => {
      if (child.pid === undefined) return;
      if (isWindows) {
        spawn("taskkill", ["/pid", String(child.pid), "/t", "/f"]).on("error", () => child.kill());
        return;
      }
      try {
        process.kill(-child.pid);
      } catch {
        // It has ended.
      }
    };
    if (abort?.aborted === true) stop();
    abort?.addEventListener("abort", stop);
    const hear = (data: Buffer): void => {
      const text = data.toString();
      output = (output + text).slice(-MAX_OUTPUT);
      for (const line of text.split("\n")) if (line.trim() !== "") heard(line.trim());
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    const end = (code: number | null): void => {
      abort?.removeEventListener("abort", stop);
      resolve({ code, output });
    };
    child.on("error", (error) => {
      output += error.message;
      end(null);
    });
    child.on("close", end);
  });
}
