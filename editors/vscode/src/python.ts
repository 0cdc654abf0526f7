import { onPath, thisMachine } from "./machine.js";
import { run, type Ran } from "./serverCommand.js";

const OLDEST = [3, 11] as const;
/** The newest minor version that is looked for by its own name. */
const NEWEST_NAMED = 14;

/** Why the environment was not made: a message for the user, and the `output` for the log. */
export class EnvironmentError extends Error {
  constructor(
    message: string,
    readonly output = "",
  ) {
    super(message);
  }
}

/**
 * Names that Pythons have, in the order in which they are tried.
 *
 * On macOS `python3` may be old although a newer one is installed beside it.  On Windows it may be a
 * stub that opens the store; Python's installer puts only `py` on `PATH` unless told otherwise.
 * Elsewhere `py` may be another program.
 */
function names(isWindows: boolean): string[] {
  const versions = [];
  for (let minor = NEWEST_NAMED; minor >= OLDEST[1]; minor--) {
    versions.push(`python${String(OLDEST[0])}.${String(minor)}`);
  }
  return ["python3", "python", ...(isWindows ? ["py"] : []), ...versions];
}

async function isRecent(
  python: string,
  runs: (command: string, args: readonly string[]) => Promise<Ran>,
): Promise<boolean> {
  const asked = await runs(python, ["-c", "import sys; print(*sys.version_info[:2])"]);
  const [major = 0, minor = 0] = asked.output.trim().split(/\s+/).map(Number);
  return asked.code === 0 && major === OLDEST[0] && minor >= OLDEST[1];
}

/**
 * Find a Python that the server runs on: the setting, else the first on `PATH` that is new enough.
 *
 * Throws EnvironmentError where there is none.
 */
export async function findPython(
  setting: string,
  machine = thisMachine(),
  runs = run,
): Promise<string> {
  const remedy = "Install Python 3.11 or newer, or set speclsp.server.python to one.";
  if (setting !== "") {
    if (await isRecent(setting, runs)) return setting;
    throw new EnvironmentError(`${setting} is not Python 3.11 or newer. ${remedy}`);
  }
  const tooOld: string[] = [];
  for (const name of names(machine.isWindows)) {
    const python = await onPath(name, machine);
    if (python === undefined) continue;
    if (await isRecent(python, runs)) return python;
    tooOld.push(python);
  }
  const found = tooOld.length > 0 ? `${tooOld.join(", ")}: too old or broken.` : "None was found.";
  throw new EnvironmentError(`The server needs Python 3.11 or newer. ${found} ${remedy}`);
}
