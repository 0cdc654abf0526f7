import { access, constants, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { posix, win32, type PlatformPath } from "node:path";

/** The system on which programs are searched; tests replace it. */
export interface Machine {
  isWindows: boolean;
  home: string;
  /** The value of `PATH`. */
  path: string;
  isExecutable(file: string): Promise<boolean>;
}

export function thisMachine(): Machine {
  const isWindows = process.platform === "win32";
  return {
    isWindows,
    home: homedir(),
    path: process.env["PATH"] ?? "",
    async isExecutable(file) {
      try {
        await access(file, isWindows ? constants.F_OK : constants.X_OK);
        return (await stat(file)).isFile();
      } catch {
        return false;
      }
    },
  };
}

/** Return Node's path functions for the system. */
export function pathsOf(machine: Machine): PlatformPath {
  return machine.isWindows ? win32 : posix;
}

/** Return the path of a program in a Python virtual environment. */
export function executableIn(environment: string, name: string, machine = thisMachine()): string {
  const paths = pathsOf(machine);
  return machine.isWindows
    ? paths.join(environment, "Scripts", `${name}.exe`)
    : paths.join(environment, "bin", name);
}

/**
 * Find a program on `PATH`, in absolute folders only: a relative one depends on the open folder.
 *
 * On Windows only an .exe counts, since Node starts no batch file without a shell.
 */
export async function onPath(name: string, machine = thisMachine()): Promise<string | undefined> {
  const paths = pathsOf(machine);
  const file = machine.isWindows && !/\.exe$/i.test(name) ? `${name}.exe` : name;
  for (const entry of machine.path.split(paths.delimiter)) {
    // Windows lets an entry stand in quotes.
    const folder = machine.isWindows ? entry.replace(/^"(.*)"$/, "$1") : entry;
    if (!paths.isAbsolute(folder)) continue;
    const found = paths.join(folder, file);
    if (await machine.isExecutable(found)) return found;
  }
  return undefined;
}
