/** The members of `speclsp.models`' answer that are shown. */
export interface Preset {
  name: string;
  title: string;
  size_bytes: number;
  licence: string;
  fits: boolean;
  /** Why it does not fit, in a few words. */
  why_not: string;
  downloaded: boolean;
  /** Bytes that are there, also of a download that was interrupted. */
  received_bytes?: number;
  why: string;
  /** Whether it was trained for next edits. */
  edits: boolean;
}

export interface Overview {
  memory: { kind: string; name: string; total_bytes: number };
  recommended: string;
  presets: Preset[];
  current: { name: string; is_trial: boolean };
}

export function gigabytes(nBytes: number): string {
  return `${(nBytes / 1e9).toFixed(1)} GB`;
}

/** The memory that models are chosen by, for example `NVIDIA GPU, 8 GB`. */
export function memoryWords({ kind, total_bytes: nBytes }: Overview["memory"]): string {
  return nBytes > 0 ? `${kind}, ${(nBytes / 2 ** 30).toFixed(0)} GB` : kind;
}

/** The presets in the order in which they are offered: the recommended one, then what fits. */
export function ordered({ presets, recommended }: Overview): Preset[] {
  const rank = (preset: Preset): number => (preset.name === recommended ? 0 : preset.fits ? 1 : 2);
  return [...presets].sort((a, b) => rank(a) - rank(b));
}

/** What is free beside the model in use, as far as its size is known by its name. */
function bytesLeft({ memory, presets, current }: Overview): number {
  const used = presets.find(({ name }) => name === current.name)?.size_bytes ?? 0;
  return memory.total_bytes - used;
}

/** The presets for next edits; those first that fit beside the model in use. */
export function forEdits(overview: Overview): { preset: Preset; remark: string }[] {
  const left = bytesLeft(overview);
  return overview.presets
    .filter(({ edits }) => edits)
    .map((preset) => {
      const isInUse = preset.name === overview.current.name;
      const fits = preset.size_bytes < left;
      const words = isInUse
        ? "in use: it needs no second model"
        : fits
          ? "fits beside the model in use"
          : "too large beside the model in use";
      return { preset, fits, remark: `${gigabytes(preset.size_bytes)} of memory, ${words}` };
    })
    .sort((a, b) => Number(b.fits) - Number(a.fits));
}

/** How much of a preset is downloaded, if anything. */
function received({ downloaded, received_bytes: nBytes = 0, size_bytes: nAll }: Preset): string[] {
  if (downloaded) return ["downloaded"];
  if (nBytes === 0) return [];
  return [`partly downloaded, ${(nBytes / 1e6).toFixed(0)} of ${(nAll / 1e6).toFixed(0)} MB`];
}

/** Return the size of a preset, and what the user should know of it. */
export function remarks(preset: Preset, { recommended, current }: Overview): string {
  return [
    gigabytes(preset.size_bytes),
    ...(preset.name === recommended ? ["recommended"] : []),
    ...(preset.name === current.name ? ["in use"] : received(preset)),
    ...(preset.fits ? [] : [preset.why_not]),
  ].join(", ");
}
