/** What an extension's manifest says of a language. */
export interface ContributedLanguage {
  id?: unknown;
  aliases?: unknown;
}

/** Languages that the editor has without an extension. */
const OF_THE_EDITOR: Record<string, string> = { plaintext: "plain text" };

/** A language's name as the editor shows it, such as `TypeScript`, else its identifier. */
export function languageName(id: string, contributed: Iterable<ContributedLanguage>): string {
  for (const language of contributed) {
    const aliases: unknown[] = Array.isArray(language.aliases) ? language.aliases : [];
    const [name] = aliases;
    // A name that stands in another file is written as %key%.
    if (language.id === id && typeof name === "string" && !name.startsWith("%")) return name;
  }
  return OF_THE_EDITOR[id] ?? id;
}
