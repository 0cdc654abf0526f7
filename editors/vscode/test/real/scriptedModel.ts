/**
 * A stand-in for Zeta 2, or for a model by analogy, behind an OpenAI-compatible server: it rewrites
 * the region of its prompt by a rule, as a model does that has understood the change, and suggests
 * nothing at the cursor.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

const MODEL = "zeta-2";

function answerTo(prompt: string, rule: (region: string) => string): string {
  const place = prompt.split("--- before\n").at(-1);
  const [old = "", given] = place?.split("+++ after\n") ?? [];
  if (given !== undefined) return `${rule(old).slice(given.length)}--- before\n`;
  const [, behind] = prompt.split("<<<<<<< CURRENT\n");
  const region = behind?.split("=======\n<[fim-middle]>")[0]?.replace("<|user_cursor|>", "");
  return region === undefined ? "" : `${rule(region)}>>>>>>> UPDATED\n`;
}

export class ScriptedModel {
  /** How the model rewrites a region. */
  rule = (region: string): string => region;

  private constructor(
    private readonly server: Server,
    readonly settings: Record<string, unknown>,
  ) {}

  static async start(): Promise<ScriptedModel> {
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (heard: Buffer) => (body += heard.toString()));
      request.on("end", () => {
        if (request.method !== "POST") {
          response.end(JSON.stringify({ data: [{ id: MODEL }] }));
          return;
        }
        const { prompt } = JSON.parse(body) as { prompt: string };
        const event = JSON.stringify({ choices: [{ text: answerTo(prompt, model.rule) }] });
        response.setHeader("Content-Type", "text/event-stream");
        response.end(`data: ${event}\n\ndata: [DONE]\n\n`);
      });
    });
    await new Promise<void>((done) => {
      server.listen(0, "127.0.0.1", done);
    });
    const { port } = server.address() as AddressInfo;
    const model = new ScriptedModel(server, {
      "speclsp.engineUrl": `http://127.0.0.1:${String(port)}`,
      "speclsp.engineKind": "openai",
      "speclsp.engine": "own",
      "speclsp.idleWork": "never",
    });
    return model;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}
