import { spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";

/** Where an executable is found, and how that was decided. */
export interface Found {
  command: string;
  origin: "setting" | "path" | "environment";
}

export function executableIn(environment: string, name: string): string {
  return process.platform === "win32"
    ? join(environment, "Scripts", `${name}.exe`)
    : join(environment, "bin", name);
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, process.platform === "win32" ? constants.F_OK : constants.X_OK).then(
    () => true,
    () => false,
  );
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

/** Find the server: the setting, else `PATH`, else the private environment. */
export async function findServer(
  setting: string,
  environment: string,
  path?: string,
): Promise<Found | undefined> {
  if (setting !== "") return { command: setting, origin: "setting" };
  const found = await onPath("speclsp", path);
  if (found !== undefined) return { command: found, origin: "path" };
  const own = executableIn(environment, "speclsp");
  return (await isExecutable(own)) ? { command: own, origin: "environment" } : undefined;
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
