import { readdirSync, readFileSync } from "node:fs";

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The processes of language servers that run below a process. */
export function serversBelow(root: number): number[] {
  const parents = new Map<number, number>();
  const servers: number[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      parents.set(pid, Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
      const command = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
      if (command.includes("serve") && command.includes("--stdio")) servers.push(pid);
    } catch {
      // It has ended meanwhile.
    }
  }
  return servers.filter((pid) => {
    for (let at: number | undefined = pid; at; at = parents.get(at)) if (at === root) return true;
    return false;
  });
}

/** The shared engines whose sockets lie below a folder. */
export function enginesOf(folder: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        const command = readFileSync(`/proc/${String(pid)}/cmdline`, "utf8");
        const environment = readFileSync(`/proc/${String(pid)}/environ`, "utf8");
        return command.includes("\0engine\0run\0") && environment.includes(`=${folder}/`);
      } catch {
        return false; // no process, or one that has ended
      }
    });
}
