import * as vscode from "vscode";
import type {
  WorkDoneProgressBegin,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from "vscode-languageclient/node";

interface Download {
  bar: vscode.Progress<{ message?: string; increment?: number }> | undefined;
  percentage: number;
  end: () => void;
}

/**
 * Shows each of the server's downloads as a notification with a button that cancels it.
 *
 * The language client shows progress in the status bar, where it cannot be cancelled.
 */
export class Downloads {
  private readonly running = new Map<string, Download>();

  /** Take a step of the download with this progress token; `cancel` asks the server to stop it. */
  take(
    token: string,
    step: WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd,
    cancel: () => void,
  ): void {
    if (step.kind === "begin") this.begin(token, step.title, cancel);
    else if (step.kind === "end") this.end(token);
    else {
      const download = this.running.get(token);
      const { message = "", percentage = 0 } = step;
      if (download?.bar === undefined) return;
      download.bar.report({ message, increment: percentage - download.percentage });
      download.percentage = percentage;
    }
  }

  private begin(token: string, title: string, cancel: () => void): void {
    const download: Download = { bar: undefined, percentage: 0, end: () => undefined };
    const ended = new Promise<void>((resolve) => (download.end = resolve));
    this.end(token);
    this.running.set(token, download);
    void vscode.window.withProgress(
      {
        location: vscode.ProgressLocation.Notification,
        title: `speclsp: ${title}`,
        cancellable: true,
      },
      (bar, cancelled) => {
        download.bar = bar;
        cancelled.onCancellationRequested(() => {
          download.end();
          cancel();
        });
        return ended;
      },
    );
  }

  private end(token: string): void {
    this.running.get(token)?.end();
    this.running.delete(token);
  }

  /** Close all notifications: the server has ended. */
  endAll(): void {
    for (const token of this.running.keys()) this.end(token);
  }
}
