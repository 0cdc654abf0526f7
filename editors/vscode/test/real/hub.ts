/** A hub on loopback that serves the embedded model in the place of every preset's files. */
import { spawn, type ChildProcess } from "node:child_process";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { REPOSITORY, SERVER } from "./workbench.js";

/** Answers `hold` and `go` on its input: files come to a halt after their first half, or go on. */
const PROGRAM = `
import sys, threading
from pathlib import Path
root = Path(sys.argv[1])
sys.path.insert(0, str(root / "tests" / "support"))
from fake_hub import serve_hub
from speclsp.models.presets import PRESETS
model = (root / "fixtures" / "models" / "embedded-target-f16.gguf").read_bytes()
with serve_hub() as hub:
    for preset in PRESETS.values():
        for file in preset.files:
            hub.repositories.setdefault(file.repository, {})[file.file] = model
    print(hub.url, flush=True)
    for line in sys.stdin:
        if line.strip() == "hold":
            hub.hold = hub.hold or threading.Event()
        elif hub.hold is not None:
            hub.hold.set()
            hub.hold = None
        print("done", flush=True)
`;

export class Hub {
  private constructor(
    private readonly process: ChildProcess,
    private readonly lines: AsyncIterator<string>,
    readonly url: string,
  ) {}

  static async start(): Promise<Hub> {
    const python = join(dirname(SERVER), "python");
    const process = spawn(python, ["-c", PROGRAM, REPOSITORY], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface(process.stdout)[Symbol.asyncIterator]();
    const { value } = (await lines.next()) as { value: string };
    return new Hub(process, lines, value);
  }

  /** Let files come to a halt, or go on. */
  async tell(word: "hold" | "go"): Promise<void> {
    this.process.stdin?.write(`${word}\n`);
    await this.lines.next();
  }

  close(): void {
    this.process.kill();
  }
}
