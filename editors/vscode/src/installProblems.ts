/** Return one sentence on why pip or venv failed, with the remedy. */
export function explanation(output: string): string {
  const causes: [RegExp, string][] = [
    [
      /No module named (ensurepip|venv)|ensurepip is not/,
      "This Python lacks venv: install python3-venv.",
    ],
    [
      /CMAKE_C(XX)?_COMPILER|compiler.*not found|error: command '(gcc|g\+\+|cc|c\+\+)'/i,
      "A C++ compiler is missing: install one (Debian: build-essential; macOS: xcode-select --install).",
    ],
    [
      /No matching distribution found for (\S+)/,
      "The package is not in the index that pip uses: set speclsp.server.package.",
    ],
    [/No space left on device/, "The disk is full."],
    [
      /ConnectionError|Temporary failure in name resolution|NewConnectionError|timed out/i,
      "The package index cannot be reached: check the network or pip's proxy settings.",
    ],
  ];
  for (const [pattern, text] of causes) if (pattern.test(output)) return text;
  const last = output.trim().split("\n").pop() ?? "";
  return `Installing failed: ${last.slice(0, 200)}`;
}
