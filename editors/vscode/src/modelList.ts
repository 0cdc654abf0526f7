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
  why: string;
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

/** Return the size of a preset, and what the user should know of it. */
export function remarks(preset: Preset, { recommended, current }: Overview): string {
  return [
    gigabytes(preset.size_bytes),
    ...(preset.name === recommended ? ["recommended"] : []),
    ...(preset.name === current.name ? ["in use"] : preset.downloaded ? ["downloaded"] : []),
    ...(preset.fits ? [] : [preset.why_not]),
  ].join(", ");
}
