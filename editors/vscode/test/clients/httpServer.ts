/** A real `speclsp http` process, and a server before it that keeps what a plugin sends. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request as ask, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "../real/until.js";
import { SERVER } from "../real/workbench.js";

/** A request of a plugin, and how it was answered. */
export interface Exchange {
  method: string;
  path: string;
  agent: string;
  body: unknown;
  /** 0 where the plugin hung up before that. */
  status: number;
}

export class HttpServer {
  private constructor(
    private readonly root: string,
    private readonly process: ChildProcess,
    private readonly tee: Server,
    /** Where plugins ask. */
    readonly url: string,
    readonly exchanges: Exchange[],
  ) {}

  /** Start it with the options of a model, and wait until the model is loaded. */
  static async start(options: readonly string[]): Promise<HttpServer> {
    const root = mkdtempSync(join(tmpdir(), "speclsp-"));
    const own = Object.fromEntries(
      ["CACHE", "STATE"].map((kind) => [`XDG_${kind}_HOME`, join(root, kind)]),
    );
    const child = spawn(
      SERVER,
      ["http", "--port", "0", "--threads", "1", "--log-level", "warning", ...options],
      {
        env: { ...process.env, ...own, XDG_RUNTIME_DIR: root },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const { value } = (await createInterface(child.stdout)[Symbol.asyncIterator]().next()) as {
      value: string;
    };
    const address = value.split(" ")[0] ?? "";
    await until("the model is loaded", async () => (await fetch(`${address}/health`)).ok);
    const exchanges: Exchange[] = [];
    const tee = passOn(address, exchanges);
    await new Promise<void>((done) => {
      tee.listen(0, "127.0.0.1", done);
    });
    const { port } = tee.address() as AddressInfo;
    return new HttpServer(root, child, tee, `http://127.0.0.1:${String(port)}`, exchanges);
  }

  async close(): Promise<void> {
    this.tee.close();
    this.tee.closeAllConnections();
    if (this.process.exitCode === null) {
      const ended = new Promise((done) => this.process.once("exit", done));
      this.process.kill();
      await ended;
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

/** A server that passes requests on to an address. */
function passOn(address: string, exchanges: Exchange[]): Server {
  return createServer((request, response) => {
    const exchange: Exchange = {
      method: request.method ?? "",
      path: request.url ?? "",
      agent: (request.headers["user-agent"] ?? "").toLowerCase(),
      body: undefined,
      status: 0,
    };
    exchanges.push(exchange);
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      exchange.body = body.length > 0 ? JSON.parse(body.toString()) : undefined;
      const { method, headers } = request;
      const onward = ask(address + exchange.path, { method, headers }, (answer) => {
        exchange.status = answer.statusCode ?? 0;
        response.writeHead(exchange.status, answer.headers);
        answer.pipe(response);
      });
      onward.on("error", () => response.destroy());
      response.on("close", () => onward.destroy());
      onward.end(body);
    });
  });
}
