/** Durations as the API writes them, such as 72h or 1h30m. */

const unit = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

/** Milliseconds; undefined for what is no duration. */
export function durationMs(text: string | undefined): number | undefined {
  if (!text || !/^(\d{1,9}h)?(\d{1,9}m)?(\d{1,9}s)?(\d{1,9}ms)?$/.test(text)) {
    return undefined;
  }
  return [...text.matchAll(/(\d+)(ms|h|m|s)/g)].reduce((n, m) => n + Number(m[1]) * unit[m[2] as keyof typeof unit], 0);
}

/** Such as "90 days" or "1 hour, 30 minutes" in the user's language. */
export function durationText(text: string, locale: string): string {
  const ms = durationMs(text);
  if (ms === undefined) {
    return text;
  }
  const parts: string[] = [];
  let rest = ms;
  for (const [name, size] of [
    ['day', 24 * unit.h],
    ['hour', unit.h],
    ['minute', unit.m],
    ['second', unit.s],
  ] as const) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) {
      parts.push(new Intl.NumberFormat(locale, { style: 'unit', unit: name, unitDisplay: 'long' }).format(n));
    }
  }
  return parts.length > 0 ? new Intl.ListFormat(locale, { type: 'unit' }).format(parts) : text;
}
