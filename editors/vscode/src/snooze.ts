import * as vscode from "vscode";
import type { Client } from "./client.js";
import { minutesSnoozed } from "./stateWords.js";

const MINUTES = [5, 15, 60];

/** Ask for a duration, and pause automatic suggestions for it. */
export async function snooze(client: Client): Promise<void> {
  const items = [
    ...(minutesSnoozed(client.status) > 0 ? [{ label: "End the snooze", minutes: 0 }] : []),
    ...MINUTES.map((minutes) => ({ label: `${String(minutes)} minutes`, minutes })),
  ];
  const choice = await vscode.window.showQuickPick(items, {
    title: "speclsp: pause automatic suggestions for",
  });
  if (choice !== undefined) await snoozeFor(client, choice.minutes);
}

/** Pause automatic suggestions for so many minutes; 0 ends the pause. */
export async function snoozeFor(client: Client, minutes: number): Promise<void> {
  await vscode.commands.executeCommand("editor.action.inlineSuggest.hide");
  await client.execute("speclsp.snooze", [minutes]);
}
