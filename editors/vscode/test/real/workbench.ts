/** A real VS Code workbench in a browser: code-server with the packaged extension, and chromium. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { enginesOf, isRunning, serversBelow } from "./processes.js";
import { TIMEOUT_MS, until } from "./until.js";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

export const EXTENSION = resolve(import.meta.dirname, "..", "..", "..");
export const ARTEFACTS = join(EXTENSION, "artefacts");
export const REPOSITORY = resolve(EXTENSION, "..", "..");
export const SERVER = process.env["SPECLSP_SERVER"] ?? join(REPOSITORY, ".venv", "bin", "speclsp");
const EDITOR = process.env["SPECLSP_VSCODE"] ?? join(REPOSITORY, ".editors", "vscode-4.139.1");
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

const USER_SETTINGS = {
  "speclsp.server.path": SERVER,
  // What is shown must not depend on how fast the machine is or what was turned down before.
  "speclsp.minProbability": 0,
  "speclsp.nContext": 0,
  "speclsp.deadlineMs": 30_000,
  "speclsp.logLevel": "debug",
  "editor.inlineSuggest.enabled": true,
  "files.autoSave": "off",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "update.showReleaseNotes": false,
  "telemetry.telemetryLevel": "off",
  "chat.disableAIFeatures": true,
  "editor.minimap.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
};

async function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer();
    server.on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => {
        done(port);
      });
    });
  });
}

/** Variables that keep a workbench, its language servers and their engines apart from others. */
function environmentIn(root: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    HOME: root,
    XDG_DATA_HOME: join(root, "share"),
    XDG_CONFIG_HOME: join(root, "config"),
    XDG_CACHE_HOME: join(root, "cache"),
    XDG_STATE_HOME: join(root, "state"),
    XDG_RUNTIME_DIR: join(root, "run"),
  };
}

/** What `speclsp engine status --json` prints of an engine. */
export interface EngineStatus {
  pid: number;
  n_windows: number;
}

export interface Options {
  settings?: Record<string, unknown>;
  /** Whether to install the packaged extension. */
  vsix?: string;
  /** Further environment variables, which the language server gets, too. */
  env?: Record<string, string>;
  /** Further arguments of code-server. */
  args?: string[];
  trust?: boolean;
}

export class Workbench {
  private constructor(
    readonly root: string,
    readonly port: number,
    private readonly server: ChildProcess,
    readonly browser: Browser,
  ) {}

  static async start(options: Options = {}): Promise<Workbench> {
    const root = mkdtempSync(join(tmpdir(), "speclsp-vscode-"));
    const data = join(root, "data");
    for (const kind of ["User", "Machine"]) {
      // An editor that is served takes settings of the machine's scope from Machine.
      mkdirSync(join(data, kind), { recursive: true });
      writeFileSync(
        join(data, kind, "settings.json"),
        JSON.stringify({ ...USER_SETTINGS, ...options.settings }, undefined, 2),
      );
    }
    const env = { ...environmentIn(root), ...options.env };
    const node = join(EDITOR, "node", "bin", "node");
    const folders = [
      join(EDITOR, "server", "entry.js"),
      ...["--user-data-dir", data, "--extensions-dir", join(root, "extensions")],
    ];
    if (options.vsix !== undefined) {
      await promisify(execFile)(node, [...folders, "--install-extension", options.vsix], { env });
    }
    const port = await freePort(); // at the last moment: other workbenches start meanwhile
    const server = spawn(
      node,
      [
        ...folders,
        ...["--bind-addr", `127.0.0.1:${String(port)}`, "--auth", "none"],
        ...["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"],
        ...["--log", "debug"],
        ...(options.trust === false ? [] : ["--disable-workspace-trust"]),
        ...(options.args ?? []),
      ],
      { env, stdio: ["ignore", "pipe", "pipe"] },
    );
    await new Promise<void>((done, failed) => {
      let output = "";
      const hear = (heard: Buffer): void => {
        output += heard.toString();
        if (output.includes("HTTP server listening")) done();
      };
      server.stdout.on("data", hear);
      server.stderr.on("data", hear);
      const failure = (what: string): void => {
        failed(new Error(`code-server ${what}:\n${output}`));
      };
      server.on("exit", () => {
        failure("ended");
      });
      setTimeout(failure, TIMEOUT_MS, "did not start").unref();
    });
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    });
    return new Workbench(root, port, server, browser);
  }

  /** Change a user's setting, as its page does. */
  set(name: string, value: unknown): void {
    for (const kind of ["User", "Machine"]) {
      const file = join(this.root, "data", kind, "settings.json");
      const settings = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
      // VS Code takes a file that it reads half written for one without settings.
      writeFileSync(`${file}.new`, JSON.stringify({ ...settings, [name]: value }, undefined, 2));
      renameSync(`${file}.new`, file);
    }
  }

  /** The extension's log, of all windows. */
  log(): string {
    const logs = join(this.root, "data", "logs");
    return readdirSync(logs, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith("speclsp.log"))
      .map((name) => readFileSync(join(logs, name), "utf8"))
      .join("\n");
  }

  /** The engines that the windows' language servers share. */
  async engines(): Promise<EngineStatus[]> {
    const { stdout } = await promisify(execFile)(SERVER, ["engine", "status", "--json"], {
      env: environmentIn(this.root),
    });
    return JSON.parse(stdout) as EngineStatus[];
  }

  get pid(): number {
    return this.server.pid ?? 0;
  }

  /** Make a folder with files. */
  folder(name: string, files: Record<string, string>): string {
    const folder = join(this.root, "projects", name);
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    return folder;
  }

  async page(
    query: string,
    payload: [string, string][] = [],
    viewport = { width: 1100, height: 700 },
  ): Promise<Page> {
    const context: BrowserContext = await this.browser.newContext({ viewport });
    context.setDefaultTimeout(TIMEOUT_MS);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const page = await context.newPage();
    const given = encodeURIComponent(JSON.stringify(payload));
    await page.goto(`http://127.0.0.1:${String(this.port)}/?${query}&payload=${given}`);
    return page;
  }

  /** Pictures of all windows, and their log. */
  async evidence(name: string): Promise<void> {
    const pages = this.browser.contexts().flatMap((context) => context.pages());
    const file = join(ARTEFACTS, name.replaceAll("/", " "));
    for (const [idx, page] of pages.entries()) {
      await page.screenshot({ path: `${file} ${String(idx + 1)}.png` });
    }
    writeFileSync(`${file}.log`, this.log());
  }

  remote(path: string): string {
    return `vscode-remote://127.0.0.1:${String(this.port)}${path}`;
  }

  async close(): Promise<void> {
    await this.browser.close();
    const servers = serversBelow(this.pid);
    const ended = new Promise((done) => this.server.once("exit", done));
    this.server.kill();
    await ended;
    await until("the language servers end", () => !servers.some(isRunning));
    // They would wait for further windows, with their files in the folder.
    for (const engine of enginesOf(this.root)) {
      try {
        process.kill(engine, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}
