import { describe, expect, it } from 'vitest';
import { durationMs, durationText } from './duration';

describe('durations', () => {
  it.each([
    ['2160h', 90 * 24 * 3_600_000],
    ['1h30m', 5_400_000],
    ['15m', 900_000],
    ['0s', 0],
    ['5ms', 5],
    ['', undefined],
    ['1d', undefined],
    ['h', undefined],
  ])('%s is %s ms', (text, ms) => expect(durationMs(text)).toBe(ms));

  it('are said in the words of people', () => {
    expect(durationText('2160h', 'en')).toBe('90 days');
    expect(durationText('25h30m', 'en')).toBe('1 day, 1 hour, 30 minutes');
    expect(durationText('2160h', 'zh-CN')).toBe('90天');
    expect(durationText('soon', 'en')).toBe('soon');
    expect(durationText('0s', 'en')).toBe('0s');
  });
});
