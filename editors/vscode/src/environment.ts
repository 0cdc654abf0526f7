import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import * as vscode from "vscode";
import { explanation } from "./installProblems.js";
import { executableIn, thisMachine } from "./machine.js";
import { EnvironmentError, findPython } from "./python.js";
import { run } from "./serverCommand.js";
import type { Wheel } from "./wheel.js";

/** Characters of a line of output that the progress shows. */
const LINE_LENGTH = 80;

/**
 * Install the server into a private Python environment, or update it there.
 *
 * The extension's own wheel chooses the build of llama.cpp for this machine; it is compiled only
 * where no prebuilt one fits.  Throws EnvironmentError, and then removes a new environment; an
 * update that fails leaves the old one in place.
 */
export async function makeEnvironment(
  folder: string,
  wheel: Wheel | undefined,
  log: vscode.LogOutputChannel,
): Promise<void> {
  const settings = vscode.workspace.getConfiguration("speclsp.server");
  const named = settings.get<string>("package", "");
  const python = executableIn(folder, "python");
  const isUpdate = await thisMachine().isExecutable(python);
  const base = isUpdate ? "" : await findPython(settings.get("python", ""));
  await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: `speclsp: ${isUpdate ? "updating" : "installing"} the server`,
      cancellable: true,
    },
    async (progress, token) => {
      const stop = new AbortController();
      token.onCancellationRequested(() => {
        stop.abort();
      });
      const step = async (
        title: string,
        command: string,
        args: string[],
        env?: Record<string, string>,
      ): Promise<void> => {
        progress.report({ message: title });
        const heard = (line: string): void => {
          log.debug(line);
          progress.report({ message: `${title}: ${line.slice(0, LINE_LENGTH)}` });
        };
        const ran = await run(command, args, stop.signal, heard, env);
        if (ran.code !== 0) {
          throw new EnvironmentError(
            token.isCancellationRequested ? "Installing was cancelled." : explanation(ran.output),
            ran.output,
          );
        }
      };
      try {
        if (!isUpdate) {
          await rm(folder, { recursive: true, force: true });
          await mkdir(dirname(folder), { recursive: true });
          await step("making an environment", base, ["-m", "venv", folder]);
        }
        if (named === "" && wheel !== undefined) {
          // Python imports from a wheel, so that the script runs before anything is installed.
          const script = ["-m", "speclsp.install_llama_cpp"];
          await step("llama.cpp", python, script, { PYTHONPATH: wheel.file });
        }
        const pip = [
          "-m",
          "pip",
          "install",
          "--disable-pip-version-check",
          "--no-input",
          "--progress-bar=off",
        ];
        const requirement = named !== "" ? named : (wheel?.file ?? "speclsp");
        await step("the server", python, [...pip, "--upgrade", requirement]);
      } catch (error) {
        if (!isUpdate) await rm(folder, { recursive: true, force: true });
        throw error;
      }
    },
  );
}
