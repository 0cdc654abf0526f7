import * as vscode from "vscode";
import type { Client } from "./client.js";

const MINUTES = [5, 15, 60];

/** Ask for a duration, and pause automatic suggestions for it. */
export async function snooze(client: Client): Promise<void> {
  const isSnoozing = (client.status.snoozedUntil ?? 0) > Date.now();
  const items = [
    ...(isSnoozing ? [{ label: "End the snooze", minutes: 0 }] : []),
    ...MINUTES.map((minutes) => ({ label: `${String(minutes)} minutes`, minutes })),
  ];
  const choice = await vscode.window.showQuickPick(items, {
    title: "speclsp: pause automatic suggestions for",
  });
  if (choice === undefined) return;
  await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
  await client.execute("speclsp.snooze", [choice.minutes]);
}
