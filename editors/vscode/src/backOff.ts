/** Decides when to restart a server that has died. */
export class BackOff {
  private deaths: number[] = [];

  constructor(
    private readonly maxInARow = 5,
    private readonly steadyMs = 60_000,
    private readonly firstMs = 500,
  ) {}

  /** Note a death, and return how long to wait, or undefined to give up. */
  died(now: number): number | undefined {
    const last = this.deaths[this.deaths.length - 1];
    if (last !== undefined && now - last > this.steadyMs) this.deaths = [];
    this.deaths.push(now);
    if (this.deaths.length > this.maxInARow) return undefined;
    return this.firstMs * 2 ** (this.deaths.length - 1);
  }

  reset(): void {
    this.deaths = [];
  }
}
