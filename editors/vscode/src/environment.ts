import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import * as vscode from "vscode";
import { explanation } from "./installProblems.js";
import { executableIn } from "./machine.js";
import { EnvironmentError, findPython } from "./python.js";
import { run } from "./serverCommand.js";

/**
 * Make a private Python environment with the server in it.
 *
 * llama.cpp is compiled for this machine, which takes some minutes.  Throws EnvironmentError, and
 * leaves no half-made environment behind.
 */
export async function makeEnvironment(folder: string, log: vscode.LogOutputChannel): Promise<void> {
  const settings = vscode.workspace.getConfiguration("speclsp.server");
  const python = await findPython(settings.get("python", ""));
  const requirement = settings.get("package", "speclsp");
  await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: "speclsp: installing the server",
      cancellable: true,
    },
    async (progress, token) => {
      const stop = new AbortController();
      token.onCancellationRequested(() => {
        stop.abort();
      });
      const step = async (title: string, args: [string, ...string[]]): Promise<void> => {
        progress.report({ message: title });
        const [command, ...rest] = args;
        const ran = await run(command, rest, stop.signal, (line) => {
          log.debug(line);
          progress.report({ message: `${title}: ${line.slice(0, 60)}` });
        });
        if (ran.code !== 0) {
          throw new EnvironmentError(
            token.isCancellationRequested ? "Installing was cancelled." : explanation(ran.output),
            ran.output,
          );
        }
      };
      try {
        await rm(folder, { recursive: true, force: true });
        await mkdir(dirname(folder), { recursive: true });
        await step("making an environment", [python, "-m", "venv", folder]);
        await step("compiling llama.cpp, some minutes", [
          executableIn(folder, "python"),
          ...["-m", "pip", "install", "--disable-pip-version-check", "--no-input", requirement],
        ]);
      } catch (error) {
        await rm(folder, { recursive: true, force: true });
        throw error;
      }
    },
  );
}
