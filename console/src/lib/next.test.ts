import { expect, it } from 'vitest';
import { safeNext } from './next';

it('comes back to a path of the console and to nothing else', () => {
  expect(safeNext('/n/k7m2q9x4w1bz/topics?prefix=a')).toBe('/n/k7m2q9x4w1bz/topics?prefix=a');
  for (const bad of [null, '', 'https://evil.example', '//evil.example', '/\\evil.example', 'javascript:alert(1)']) {
    expect(safeNext(bad)).toBe('/');
  }
});
