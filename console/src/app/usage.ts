import type { Schemas } from '../api/client';
import type { dimensions, grains, metrics, ranges, UsageSearch } from './search';

export type Dimension = (typeof dimensions)[number];
export type Metric = (typeof metrics)[number];

export interface Period {
  from: Date;
  to: Date;
  grain: (typeof grains)[number];
}

const hour = 3_600_000;
const day = 24 * hour;

/** The period of a choice, cut as usage is: in UTC. The grain is the one that gives a readable chart. */
export function periodOf(range: (typeof ranges)[number], search: UsageSearch, now: Date): Period {
  const month = (offset: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1));
  switch (range) {
    case '1h':
      return { from: new Date(floor(now, 60_000) - hour), to: new Date(floor(now, 60_000) + 60_000), grain: 'minute' };
    case '24h':
      return { from: new Date(floor(now, hour) - 23 * hour), to: new Date(floor(now, hour) + hour), grain: 'hour' };
    case '7d':
      return { from: new Date(floor(now, day) - 6 * day), to: new Date(floor(now, day) + day), grain: 'day' };
    case 'month':
      return { from: month(0), to: month(1), grain: 'day' };
    case 'last_month':
      return { from: month(-1), to: month(0), grain: 'day' };
    case 'custom': {
      const from = search.from ? new Date(search.from) : month(0);
      const to = search.to ? new Date(search.to) : now;
      return { from, to, grain: search.grain ?? grainFor(to.getTime() - from.getTime()) };
    }
  }
}

function floor(d: Date, step: number): number {
  return Math.floor(d.getTime() / step) * step;
}

/** The finest grain that keeps a period within a few hundred points. */
export function grainFor(ms: number): Period['grain'] {
  if (ms <= 6 * hour) {
    return 'minute';
  }
  if (ms <= 14 * day) {
    return 'hour';
  }
  return ms <= 750 * day ? 'day' : 'month';
}

/** What a row belongs to in a grouping; undefined when the dimension does not apply to it. */
export function rowName(row: Schemas['UsageRow'], by: Dimension): string | undefined {
  switch (by) {
    case 'topic':
      return row.topic;
    case 'group':
      return row.group;
    case 'api_key':
      return row.api_key_id;
    case 'namespace':
      return row.namespace_id;
    case 'class':
      return row.class;
    case 'protocol':
      return row.protocol;
  }
}

export interface Series {
  name: string;
  /** One value for each time; a period without a row counted nothing. */
  values: number[];
}

export interface Chart {
  /** Seconds since 1970, as the chart wants them. */
  times: number[];
  series: Series[];
  /** Names that were added up in the last series, because there were too many. */
  others: number;
}

/**
 * The rows as lines of a chart: the biggest `most` names each a line, the rest added up under `otherName`. The sums are
 * made of whole numbers of any length; only the points of the drawing are floats.
 */
export function chartOf(
  rows: readonly Schemas['UsageRow'][],
  by: Dimension,
  metric: Metric,
  period: { from: string; to: string; grain: Period['grain'] },
  names: { none: string; other: string; shown?: (name: string) => string },
  most = 8,
): Chart {
  const starts = startsOf(period);
  const at = new Map(starts.map((ms, i) => [ms, i]));
  const byName = new Map<string, bigint[]>();
  for (const row of rows) {
    const i = at.get(Date.parse(row.from));
    if (i === undefined) {
      continue;
    }
    const name = rowName(row, by) ?? names.none;
    let line = byName.get(name);
    if (!line) {
      line = new Array<bigint>(starts.length).fill(0n);
      byName.set(name, line);
    }
    line[i] = (line[i] ?? 0n) + BigInt(row[metric]);
  }
  const sum = (l: bigint[]) => l.reduce((a, b) => a + b, 0n);
  const ranked = [...byName].filter(([, l]) => sum(l) > 0n).sort((a, b) => (sum(b[1]) > sum(a[1]) ? 1 : -1));
  const shown = ranked.slice(0, most);
  const rest = ranked.slice(most);
  if (rest.length > 0) {
    const other = new Array<bigint>(starts.length).fill(0n);
    for (const [, l] of rest) {
      for (const [i, v] of l.entries()) {
        other[i] = (other[i] ?? 0n) + v;
      }
    }
    shown.push([names.other, other]);
  }
  return {
    times: starts.map((ms) => ms / 1000),
    series: shown.map(([name, l]) => ({ name: names.shown?.(name) ?? name, values: l.map(Number) })),
    others: rest.length,
  };
}

function startsOf(p: { from: string; to: string; grain: Period['grain'] }): number[] {
  const out: number[] = [];
  const to = Date.parse(p.to);
  const step = { minute: 60_000, hour, day, month: 0 }[p.grain];
  for (let at = Date.parse(p.from); at < to && out.length < 1500; ) {
    out.push(at);
    if (step > 0) {
      at += step;
    } else {
      const d = new Date(at);
      at = Date.UTC(d.getUTCFullYear(), d.getUTCMonth() + 1, 1);
    }
  }
  return out;
}
