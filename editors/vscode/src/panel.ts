import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { Client } from "./client.js";
import { openHelp } from "./help.js";
import { modelWords, shownState } from "./stateWords.js";
import { figures } from "./statistics.js";

const REFRESH_MS = 1000;

/** Draws the statistics in a webview, every second while it is visible. */
export class Panel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly client: Client,
    private readonly extension: vscode.Uri,
  ) {}

  show(): void {
    if (this.panel !== undefined) {
      this.panel.reveal();
      return;
    }
    const media = vscode.Uri.joinPath(this.extension, "media");
    const panel = vscode.window.createWebviewPanel(
      "speclsp.statistics",
      "speclsp Statistics",
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, localResourceRoots: [media] },
    );
    this.panel = panel;
    panel.iconPath = vscode.Uri.joinPath(media, "icon.png");
    panel.webview.html = page(panel.webview, media);
    panel.onDidDispose(() => {
      clearInterval(this.timer);
      this.panel = undefined;
    });
    panel.webview.onDidReceiveMessage((asked: "figures" | "help") => {
      if (asked === "help") void openHelp(this.extension, "statistics");
      else void this.send();
    });
    this.timer = setInterval(() => {
      if (panel.visible) void this.send();
    }, REFRESH_MS);
  }

  private async send(): Promise<void> {
    const stats = await this.client.statistics();
    const { model } = this.client.status;
    const { words, isProblem } = shownState(this.client.status);
    await this.panel?.webview.postMessage({
      words,
      isProblem,
      model: model === undefined ? "" : modelWords(model),
      stats,
      figures: stats && figures(stats),
    });
  }

  dispose(): void {
    this.panel?.dispose();
  }
}

function page(webview: vscode.Webview, media: vscode.Uri): string {
  const nonce = randomBytes(16).toString("hex");
  const uri = (name: string): string =>
    webview.asWebviewUri(vscode.Uri.joinPath(media, name)).toString();
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta http-equiv="Content-Security-Policy"
    content="default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}';">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <link rel="stylesheet" href="${uri("panel.css")}">
  <title>speclsp</title>
</head>
<body>
  <main>
    <h1>speclsp <span id="state" role="status"></span></h1>
    <p id="model"></p>
    <p id="nothing">No figures yet: they begin with the server.</p>
    <div id="all" hidden>
      <section aria-labelledby="figures-title">
        <h2 id="figures-title">In this window, since its server started</h2>
        <dl id="figures"></dl>
      </section>
      <section aria-labelledby="latency-title">
        <h2 id="latency-title">Latency</h2>
        <figure><svg id="latency" role="img" aria-labelledby="latency-text"></svg>
        <figcaption id="latency-text">No suggestion yet.</figcaption></figure>
      </section>
      <details>
        <summary>Details</summary>
        <dl id="details"></dl>
        <h3 id="drafters-title">Drafts</h3>
        <p class="remark">Tokens that were guessed ahead, which the model verified: accepted ones
        cost it no further pass, and no other text is ever shown.</p>
        <table aria-labelledby="drafters-title"><thead><tr><th scope="col">Drafter</th>
        <th scope="col">Accepted</th><th scope="col" class="number">Tokens</th></tr></thead>
        <tbody id="drafters"></tbody></table>
        <p><button id="help" type="button">What these figures mean</button></p>
      </details>
    </div>
  </main>
  <script nonce="${nonce}" src="${uri("panel.js")}"></script>
</body>
</html>`;
}
