/** How the bill is shown: in the units that people think in; the exact number goes beside it. */

export const meters = ['billable_units', 'egress_bytes', 'stored_byte_ms'] as const;
export type Meter = (typeof meters)[number];

export function isMeter(code: string): code is Meter {
  return (meters as readonly string[]).includes(code);
}

const gib = 1n << 30n;

/** For each unit that is counted: how many of it make one that is shown, and of how many of it the price is said. */
const units = {
  unit_4k: { size: 1n, priced: 1_000_000n },
  byte: { size: gib, priced: gib },
  byte_ms: { size: gib * 3_600_000n, priced: gib * 3_600_000n },
} as const;
export type CostUnit = keyof typeof units;

export function isCostUnit(code: string): code is CostUnit {
  return Object.hasOwn(units, code);
}

/** Whether a price for so many of the unit can be said in its words: a million, a GiB, a GiB-hour. */
export function isUsualPrice(unit: CostUnit, pricePer: string): boolean {
  return pricePer === String(units[unit].priced);
}

/** A quantity in the unit that is shown, with about four digits; what is there but too small to show is not called 0. */
export function formatQuantity(value: string, unit: CostUnit, locale: string): string {
  const { size } = units[unit];
  let exact: bigint;
  try {
    exact = BigInt(value);
  } catch {
    return value;
  }
  const whole = exact / size;
  if (size === 1n || whole >= 1000n) {
    return new Intl.NumberFormat(locale).format(whole + ((exact % size) * 2n) / size);
  }
  const n = Number((exact * 1_000_000n) / size) / 1e6;
  if (exact > 0n && n < 0.001) {
    return `< ${new Intl.NumberFormat(locale, { maximumFractionDigits: 3 }).format(0.001)}`;
  }
  return new Intl.NumberFormat(locale, { maximumSignificantDigits: 4 }).format(n);
}
