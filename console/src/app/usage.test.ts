import { describe, expect, it } from 'vitest';
import type { Schemas } from '../api/client';
import { chartOf, grainFor, periodOf } from './usage';

const zero = {
  messages_in: '0',
  messages_out: '0',
  bytes_in: '0',
  bytes_out: '0',
  units4k_in: '0',
  units4k_out: '0',
  units64k_in: '0',
  units64k_out: '0',
  api_calls: '0',
  empty_polls: '0',
  byte_ms_stored: '0',
  connection_seconds: '0',
  rejected: '0',
};

function row(from: string, topic: string | undefined, messages: string): Schemas['UsageRow'] {
  return { ...zero, from, to: from, topic, messages_in: messages };
}

const now = new Date('2026-09-15T10:17:30.000Z');

describe('periodOf', () => {
  it('cuts in UTC', () => {
    const iso = (r: Parameters<typeof periodOf>[0]) => {
      const p = periodOf(r, {}, now);
      return [p.from.toISOString(), p.to.toISOString(), p.grain];
    };
    expect(iso('1h')).toEqual(['2026-09-15T09:17:00.000Z', '2026-09-15T10:18:00.000Z', 'minute']);
    expect(iso('24h')).toEqual(['2026-09-14T11:00:00.000Z', '2026-09-15T11:00:00.000Z', 'hour']);
    expect(iso('7d')).toEqual(['2026-09-09T00:00:00.000Z', '2026-09-16T00:00:00.000Z', 'day']);
    expect(iso('month')).toEqual(['2026-09-01T00:00:00.000Z', '2026-10-01T00:00:00.000Z', 'day']);
    expect(iso('last_month')).toEqual(['2026-08-01T00:00:00.000Z', '2026-09-01T00:00:00.000Z', 'day']);
  });

  it('takes what the address says, and a grain that fits the server limit of 1,500 periods', () => {
    const p = periodOf('custom', { from: '2026-01-01T00:00:00.000Z', to: '2026-09-01T00:00:00.000Z' }, now);
    expect(p.grain).toBe('day');
    for (const [ms, step] of [
      [6 * 3_600_000, 60_000],
      [14 * 86_400_000, 3_600_000],
      [750 * 86_400_000, 86_400_000],
    ] as const) {
      expect(ms / step).toBeLessThanOrEqual(1500);
      expect(grainFor(ms)).not.toBe('month');
    }
  });
});

describe('chartOf', () => {
  const period = { from: '2026-09-01T00:00:00.000Z', to: '2026-09-04T00:00:00.000Z', grain: 'day' as const };
  const names = { none: 'none', other: 'others' };

  it('fills what is missing with zeros and ranks by sum', () => {
    const c = chartOf(
      [
        row('2026-09-01T00:00:00.000Z', 'a', '1'),
        row('2026-09-03T00:00:00.000Z', 'b', '5'),
        row('2026-09-03T00:00:00.000Z', undefined, '2'),
      ],
      'topic',
      'messages_in',
      period,
      names,
    );
    expect(c.times.length).toBe(3);
    expect(c.series).toEqual([
      { name: 'b', values: [0, 0, 5] },
      { name: 'none', values: [0, 0, 2] },
      { name: 'a', values: [1, 0, 0] },
    ]);
  });

  it('adds up what there is no room for, and drops what counted nothing', () => {
    const rows = Array.from({ length: 12 }, (_, i) => row('2026-09-02T00:00:00.000Z', `t${i}`, String(i)));
    const c = chartOf(rows, 'topic', 'messages_in', period, names, 4);
    expect(c.series.map((s) => s.name)).toEqual(['t11', 't10', 't9', 't8', 'others']);
    expect(c.series.at(-1)?.values[1]).toBe(1 + 2 + 3 + 4 + 5 + 6 + 7);
    expect(c.others).toBe(7);
  });

  it('shows names as it is told, and adds up by the names themselves', () => {
    const rows = [row('2026-09-01T00:00:00.000Z', '%RETRY%g', '1'), row('2026-09-02T00:00:00.000Z', '%RETRY%g', '2')];
    const c = chartOf(rows, 'topic', 'messages_in', period, { ...names, shown: (n) => `shown ${n}` });
    expect(c.series).toEqual([{ name: 'shown %RETRY%g', values: [1, 2, 0] }]);
  });

  it('goes by calendar months', () => {
    const c = chartOf(
      [],
      'topic',
      'messages_in',
      { from: '2026-01-01T00:00:00.000Z', to: '2026-04-01T00:00:00.000Z', grain: 'month' },
      names,
    );
    expect(c.times).toEqual(['2026-01-01', '2026-02-01', '2026-03-01'].map((d) => Date.parse(d) / 1000));
  });
});
